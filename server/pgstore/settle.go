package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Settle implements [store.Store], in one statement if the owner still owns
// the key.
func (s *Store) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := checkSettlement(end); err != nil {
		return err
	}
	ok, err := s.settleRow(ctx, o, end)
	if err != nil || ok {
		return wrap("settle", err)
	}
	if end.State != store.StateCompleted {
		return store.ErrLeaseLost
	}
	return s.settledBefore(ctx, o)
}

// settledBefore returns nil if the record holds o's own completion.
func (s *Store) settledBefore(ctx context.Context, o store.Owner) error {
	st := s.query.settled.Bind(pgx.NamedArgs{"key": uuid(o.ID), "token": uuid(o.Token), "fence": o.Fence})
	_, err := pgkit.One(ctx, s.db.Pool, st, pgx.RowTo[bool])
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrLeaseLost
	}
	if err != nil {
		return wrap("settle", err)
	}
	// The first completion may be visible and not yet confirmed by a standby.
	_, err = s.readPatiently(ctx, o.ID)
	return wrap("settle", err)
}

// readPatiently is read, which waits for Config.LockTimeout where a transaction holds the record.
func (s *Store) readPatiently(ctx context.Context, id store.ID) (store.Record, error) {
	return pgkit.RetryLocked(ctx, s.cfg.LockTimeout, func() (store.Record, error) { return s.read(ctx, id) })
}
