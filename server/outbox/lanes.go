package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

type named = pgx.NamedArgs

// work is the state of one Run.
type work struct {
	*Relay

	delays *delays
	lanes  []int16
	until  time.Time // the end of the lease, by this process's clock, and not after the database's
	renew  time.Time
}

// hold makes sure that the lease lasts for another call of Publish. It renews after a third of the lease.
func (w *work) hold(ctx context.Context) error {
	if now := time.Now(); now.Before(w.renew) {
		return nil
	}
	asked := time.Now()
	relays, err := w.join(ctx)
	if err == nil {
		w.lanes, err = w.take(ctx, relays)
	}
	if err != nil {
		if !time.Now().Before(w.until) {
			w.lanes = nil
		}
		return err
	}
	w.until, w.renew = asked.Add(w.cfg.Lease), asked.Add(w.cfg.Lease/3)
	return nil
}

// join makes the relay known, and returns how many there are.
func (w *work) join(ctx context.Context) (relays int, err error) {
	st := w.query.join.Bind(named{"relay": w.id, "lease": w.cfg.Lease})
	relays, err = pgkit.One(ctx, w.pool, st, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("join: %w", err)
	}
	return relays, nil
}

// take takes the relay's share of the lanes. Shares are rounded up, so that no lane is left over.
func (w *work) take(ctx context.Context, relays int) ([]int16, error) {
	share := (lanes + relays - 1) / relays
	st := w.query.take.Bind(named{"relay": w.id, "lease": w.cfg.Lease, "share": share})
	taken, err := pgkit.All(ctx, w.pool, st, pgx.RowTo[int16])
	if err != nil {
		return nil, fmt.Errorf("take lanes: %w", err)
	}
	return taken, nil
}

// holds reports whether the lease lasts for another call of Publish. A relay that was stopped for longer than its
// lease sends no more of what it read before.
func (w *work) holds() bool { return time.Now().Add(w.cfg.PublishTimeout).Before(w.until) }
