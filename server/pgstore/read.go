package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Read implements [store.Store]. It waits for no transaction, and sees what is committed. A final
// record is confirmed first where [Config.ConfirmReplays] says so. The confirmation waits for the
// transaction that holds the record, as Claim does.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	for wait := pgkit.WaitForLock(s.lockWait()); ; {
		if r, err := s.read(ctx, id); !wait.Again(ctx, err) {
			return r, wrap("read", err)
		}
	}
}

func (s *Store) read(ctx context.Context, id store.ID) (store.Record, error) {
	return s.readAs(ctx, id, store.Token{})
}

// readAs is read for a caller that may find its own claim. It must be as sure of that claim as of
// its own write.
func (s *Store) readAs(ctx context.Context, id store.ID, token store.Token) (store.Record, error) {
	for n := 1; ; n++ {
		f, err := s.find(ctx, id)
		switch {
		case pgkit.AgainAfterConflict(ctx, n, err): // it was the victim of a deadlock with partitions' maintenance
		case err != nil:
			return store.Record{}, err
		case s.mustConfirm(f, token):
			return s.confirm(ctx, id)
		default:
			return f.Record, nil
		}
	}
}

// find reads a record. It shares a statement with the reads of other callers at this time.
func (s *Store) find(ctx context.Context, id store.ID) (found, error) {
	f, ok, err := s.reads.Do(ctx, id)
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	return f, cmp.Or(err, f.damage)
}

// newReads gathers the reads of records.
func (s *Store) newReads(c *pgkit.Combiner) *pgkit.BatchKind[store.ID, found] {
	return pgkit.NewBatchKind(c, pgkit.BatchKindConfig[store.ID, found]{
		One:     s.readOne,
		ScanOne: scanFound,
		Many: func(ids []store.ID) (pgkit.Statement, func(pgx.CollectableRow) (int, found, error)) {
			return s.readMany(ids), scanNumberedFound
		},
		Place: func(id store.ID) pgkit.Place { return pgkit.Place{Shard: s.placement.Of(id).Shard} }, // one flush can have all nodes
	})
}

func (s *Store) readOne(id store.ID) pgkit.Statement {
	query := s.query.read
	if s.cfg.Answers != AnswersInline {
		query = s.query.readPartitioned
	}
	return query.Bind(pgx.NamedArgs{"key": uuid(id)})
}

func (s *Store) readMany(ids []store.ID) pgkit.Statement {
	query := s.query.readMany
	if s.cfg.Answers != AnswersInline {
		query = s.query.readManyPartitioned
	}
	keys := make(pgkit.Array[pgtype.UUID], len(ids))
	for i, id := range ids {
		keys[i] = uuid(id)
	}
	return query.Bind(pgx.NamedArgs{"keys": keys})
}

// confirm writes before it trusts the record that it reads.
func (s *Store) confirm(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := s.confirmRecord(ctx, id)
	if err != nil || !s.mayBeApart(r) {
		return r, err
	}
	f, err := s.find(ctx, id)
	return f.Record, err
}

// mayBeApart reports whether the answer of r has to be read by a statement of its own, if r is from
// a statement that locks. Such a statement shows the record as it was when the lock came. It shows
// other tables as they were before the wait for the lock.
func (s *Store) mayBeApart(r store.Record) bool {
	return s.cfg.Answers != AnswersInline && r.State == store.StateCompleted && r.Answer.Envelope == nil
}

func (s *Store) confirmRecord(ctx context.Context, id store.ID) (store.Record, error) {
	return pgkit.RetryConflict(ctx, func() (store.Record, error) {
		st := s.query.confirm.Bind(pgx.NamedArgs{"key": uuid(id), "lock_timeout": s.db.Briefly})
		f, ok, err := pgkit.Row(ctx, s.db.Writer, st, scanFound)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if pgkit.Classify(err) == pgkit.FailureLockTimeout {
			err = fmt.Errorf("%w: %w", errUnconfirmed, err)
		}
		return f.Record, cmp.Or(err, f.damage)
	})
}

// errUnconfirmed: a record cannot be confirmed, because another transaction holds it. The other
// transaction does not decide about the key: a final record never is in progress again.
var errUnconfirmed = errors.New("the record is held by another transaction")

// mustConfirm reports whether a record must be confirmed. A record that is still to run promises
// nothing to any caller, and its take-over writes.
func (s *Store) mustConfirm(f found, token store.Token) bool {
	switch {
	case f.State == store.StateReleased, f.State == store.StateInProgress && f.Token != token:
		return false
	case f.State == store.StateInProgress && !s.cfg.SynchronousClaims:
		return true // the caller's own claim, whose commit may have been asynchronous
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
