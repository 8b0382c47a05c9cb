package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// Stats is the result of [Outbox.Stats].
type Stats struct {
	Waiting int64         // messages that are not published
	Failing int64         // of these, the ones that the broker did not take at least once
	Oldest  time.Duration // age of the oldest one; 0 if none waits
	Relays  int           // at work now. Alert if it is 0
}

// Stats counts the messages that wait. It reads all of them: normally there are few.
func (o *Outbox) Stats(ctx context.Context, pool *pgxpool.Pool) (Stats, error) {
	if pool == nil {
		return Stats{}, fmt.Errorf("%w: no pool", ErrArgument)
	}
	s, err := pgkit.One(ctx, pool, o.query.stats.Bind(nil), func(row pgx.CollectableRow) (s Stats, err error) {
		var seconds float64
		err = row.Scan(&s.Waiting, &s.Failing, &seconds, &s.Relays)
		s.Oldest = time.Duration(seconds * float64(time.Second))
		return s, err
	})
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	return s, nil
}
