package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Read implements [server.Store]. It waits for no transaction, and sees what is
// committed. A final record is confirmed first where [Config.ConfirmReplays]
// says so, which waits for whoever holds the record, as Claim does.
func (s *Store) Read(ctx context.Context, id server.ID) (server.Record, error) {
	for wait := pgkit.WaitForLock(s.lockWait()); ; {
		if r, err := s.read(ctx, id); !wait.Again(ctx, err) {
			return r, wrap("read", err)
		}
	}
}

func (s *Store) read(ctx context.Context, id server.ID) (server.Record, error) {
	return s.readAs(ctx, id, server.Token{})
}

// readAs is read for who may find its own claim, of which it has to be as sure as of its
// own write.
func (s *Store) readAs(ctx context.Context, id server.ID, token server.Token) (server.Record, error) {
	for n := 1; ; n++ {
		f, err := s.find(ctx, id)
		switch {
		case pgkit.AgainAfterConflict(ctx, n, err): // it was the victim of a deadlock with partitions' maintenance
		case err != nil:
			return server.Record{}, err
		case s.mustConfirm(f, token):
			return s.confirm(ctx, id)
		default:
			return f.Record, nil
		}
	}
}

// find reads a record together with what others read at this time.
func (s *Store) find(ctx context.Context, id server.ID) (found, error) {
	if s.reads == nil {
		f, err := pgkit.One(ctx, s.pool, s.readOne(id), scanFound)
		return f, cmp.Or(notFound(err), f.damage)
	}
	f, ok, err := s.reads.Do(ctx, id)
	if err == nil && !ok {
		err = server.ErrNotFound
	}
	return f, cmp.Or(err, f.damage)
}

// newReads gathers the reads of records.
func (s *Store) newReads() *pgkit.Gatherer[server.ID, found] {
	return pgkit.NewGatherer(s.pool, s.cfg.MaxQueued, pgkit.LaneConfig[server.ID, found]{
		One:     s.readOne,
		ScanOne: scanFound,
		Many: func(ids []server.ID) (pgkit.Statement, func(pgx.CollectableRow) (int, found, error)) {
			return s.readMany(ids), scanNumberedFound
		},
	})
}

func (s *Store) readOne(id server.ID) pgkit.Statement {
	query := s.query.read
	if s.cfg.Answers != AnswersInline {
		query = s.query.readPartitioned
	}
	return query.Bind(pgx.NamedArgs{"key": uuid(id)})
}

func (s *Store) readMany(ids []server.ID) pgkit.Statement {
	query := s.query.readMany
	if s.cfg.Answers != AnswersInline {
		query = s.query.readManyPartitioned
	}
	keys := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		keys[i] = uuid(id)
	}
	return query.Bind(pgx.NamedArgs{"keys": keys})
}

// confirm writes before it believes what it reads.
func (s *Store) confirm(ctx context.Context, id server.ID) (server.Record, error) {
	r, err := s.confirmRecord(ctx, id)
	if err != nil || !s.mayBeApart(r) {
		return r, err
	}
	f, err := s.find(ctx, id)
	return f.Record, err
}

// mayBeApart reports that the answer of r has to be read by a statement of its own, if
// r is from one that locks: that shows the record as it was when the lock was there,
// and other tables as they were before it waited for it.
func (s *Store) mayBeApart(r server.Record) bool {
	return s.cfg.Answers != AnswersInline && r.State == server.StateCompleted && r.Answer.Envelope == nil
}

func (s *Store) confirmRecord(ctx context.Context, id server.ID) (server.Record, error) {
	return pgkit.RetryConflict(ctx, func() (server.Record, error) {
		st := s.query.confirm.Bind(pgx.NamedArgs{"key": uuid(id), "lock_timeout": s.briefly})
		f, ok, err := pgkit.Row(ctx, s.writer, st, scanFound)
		if err == nil && !ok {
			err = server.ErrNotFound
		}
		if pgkit.Classify(err) == pgkit.FailureLockTimeout {
			err = fmt.Errorf("%w: %w", errUnconfirmed, err)
		}
		return f.Record, cmp.Or(err, f.damage)
	})
}

// errUnconfirmed: a record cannot be confirmed, as another transaction holds it. It is no key that is being
// decided about: a final record never is in progress again.
var errUnconfirmed = errors.New("the record is held by another transaction")

// mustConfirm: a record that is still to run promises nothing to anybody, and
// whoever takes it over writes.
func (s *Store) mustConfirm(f found, token server.Token) bool {
	if (f.State == server.StateInProgress && f.Token != token) || f.State == server.StateReleased {
		return false
	}
	switch s.cfg.ConfirmReplays {
	case ConfirmAlways:
		return true
	case ConfirmNever:
		return false
	default:
		return f.synchronous
	}
}

func notFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return server.ErrNotFound
	}
	return err
}
