package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Cancel implements [server.Store]. It locks the record even where it changes
// nothing.
func (s *Store) Cancel(ctx context.Context, req server.CancelRequest) (server.Record, bool, error) {
	if err := checkLength("Keep", req.Keep); err != nil {
		return server.Record{}, false, err
	}
	b, err := pgkit.RetryConflict(ctx, func() (before, error) {
		return pgkit.Tx(ctx, s.writer, func(ctx context.Context, tx pgx.Tx) (before, error) { return s.cancel(ctx, tx, req) })
	})
	return b.record, b.existed, wrap("cancel", err)
}

// before is what a cancel found.
type before struct {
	record  server.Record
	existed bool
}

// cancel makes the key a tombstone as part of tx, whose lock timeout it leaves
// as it was. If it fails, tx has failed.
func (s *Store) cancel(ctx context.Context, tx pgx.Tx, req server.CancelRequest) (before, error) {
	theirs, err := s.setLockTimeout(ctx, tx, s.lockTimeout)
	if err != nil {
		return before{}, err
	}
	b, err := s.lockOrBury(ctx, tx, req)
	if err != nil {
		return before{}, err
	}
	if b.existed && cancellable(b.record) {
		st := s.query.cancel.Bind(pgx.NamedArgs{"key": uuid(req.ID), "token": uuid(req.Token), "keep": req.Keep})
		if _, err := pgkit.One(ctx, tx, st, pgx.RowTo[bool]); err != nil {
			return before{}, err
		}
	}
	_, err = s.setLockTimeout(ctx, tx, theirs)
	return b, err
}

func (s *Store) setLockTimeout(ctx context.Context, tx pgx.Tx, to string) (was string, err error) {
	st := s.query.setLockTimeout.Bind(pgx.NamedArgs{"lock_timeout": to})
	return was, tx.QueryRow(ctx, st.SQL, st.Args...).Scan(&was, nil)
}

// lockOrBury locks the record, or inserts a tombstone where there is none. One
// that is inserted or swept in between makes it look again.
func (s *Store) lockOrBury(ctx context.Context, tx pgx.Tx, req server.CancelRequest) (before, error) {
	for {
		st := s.query.lock.Bind(pgx.NamedArgs{"key": uuid(req.ID)})
		f, err := pgkit.One(ctx, tx, st, scanFound)
		if err == nil && s.mayBeApart(f.Record) {
			f, err = pgkit.One(ctx, tx, s.readOne(req.ID), scanFound)
		}
		if err == nil {
			return before{f.Record, true}, f.damage
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return before{}, err
		}
		st = s.query.cancelAbsent.Bind(pgx.NamedArgs{"key": uuid(req.ID), "token": uuid(req.Token), "keep": req.Keep})
		_, err = pgkit.One(ctx, tx, st, pgx.RowTo[bool])
		if err == nil {
			return before{}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return before{}, err
		}
	}
}

// cancellable reports that nobody has an answer, and nobody is at work.
func cancellable(r server.Record) bool {
	switch r.State {
	case server.StateCompleted, server.StateCancelled:
		return false
	case server.StateInProgress:
		return dead(r)
	default:
		return true
	}
}
