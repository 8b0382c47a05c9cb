package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/store"
)

// Sweep implements [store.Store]. It deletes records in one statement and one commit. Once they are
// fewer than limit, it drops answers, in statements and commits of their own, for a second or until it finds none to
// drop. A limit of a thousand or so keeps each statement short. It
// passes over records that a transaction holds, so that sweeps in several processes share the work.
// Its commits wait neither for the disk nor for a standby: the next sweep deletes the records that
// a crash brings back.
//
// It goes on where the last call of this process ended, and from the start once nothing is left
// there. Otherwise each call would pass over the records that earlier calls deleted, until a vacuum
// clears them away, and over records that must stay.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := store.CheckLimit(limit); err != nil {
		return 0, err
	}
	var from time.Time // the start
	if last := s.swept.Load(); last != nil {
		from = *last
	}
	n, err := s.sweepFrom(ctx, from, limit)
	if err == nil && n < limit && !from.IsZero() {
		var more int
		more, err = s.sweepFrom(ctx, time.Time{}, limit-n)
		n += more
	}
	if err == nil && n < limit {
		err = errors.Join(s.dropDueAnswers(ctx, limit), s.sweepAttention(ctx), s.findDead(ctx), s.db.FindShards(ctx))
		if err == nil && s.cfg.Answers == AnswersPartitioned {
			_, err = s.lookAtPartitions(ctx, s.db.Pool) // somebody else may have made some
		}
	}
	return n, wrap("sweep", err)
}

// batch is the result of one step of a sweep.
type batch struct {
	count int
	last  pgtype.Timestamptz // null: it deleted none
	full  bool               // there may be more behind it, although it passed over some
}

// sweepFrom deletes at most limit records that expired at from or later. If these
// are fewer the next call begins at the start.
func (s *Store) sweepFrom(ctx context.Context, from time.Time, limit int) (int, error) {
	st := s.query().Sweep.Bind(pgx.NamedArgs{"after": after(from), "limit": int64(limit)})
	b, err := pgkit.RetryConflict(ctx, func() (batch, error) {
		if s.query().distributed {
			return s.sweepByKey(ctx, from, limit)
		}
		b, _, err := pgkit.Row(ctx, s.db.Writer, st, func(row pgx.CollectableRow) (b batch, err error) {
			return b, row.Scan(&b.count, &b.last)
		})
		return b, err
	})
	if err != nil {
		return 0, err
	}
	next := time.Time{}
	if b.count == limit || b.full {
		next = b.last.Time
	}
	s.swept.Store(&next)
	return b.count, nil
}

// Stats implements [store.Store]. It reads the whole table.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	stats := store.Stats{ByState: make(map[store.State]int64)}
	st := s.query().Stats.Bind(nil)
	rows, err := s.db.Pool.Query(ctx, st.SQL)
	if err != nil {
		return store.Stats{}, wrap("stats", err)
	}
	var state int16
	var count int64
	var age time.Duration
	_, err = pgx.ForEachRow(rows, []any{&state, &count, &age}, func() error {
		stats.ByState[store.State(state)] = count        //nolint:gosec // this package writes 1 to 6
		if store.State(state) == store.StateInProgress { //nolint:gosec // this package writes 1 to 6
			stats.OldestInProgress = age
		}
		return nil
	})
	if err != nil {
		return store.Stats{}, wrap("stats", err)
	}
	if stats.Bytes, err = pgkit.One(ctx, s.db.Pool, s.query().Size.Bind(nil), pgx.RowTo[int64]); err != nil {
		return store.Stats{}, wrap("stats", err)
	}
	replication, err := component.AskReplication(ctx, s.db.Pool)
	stats.AsyncStandbys = replication.Async
	return stats, wrap("stats", err)
}

// An answerSweep is how far this process has come with dropping answers that are
// past their time and in their records.
type answerSweep struct {
	mu     sync.Mutex
	after  time.Time
	opaque store.Cursor // how far it has come with looking for dead runs
	notes  store.Cursor // and for stale notes
}

// answerWindow is how many records are looked at for each answer that may be
// dropped.
const answerWindow = 10

// leastWindow is more than expire at one moment, as the claims of one flush do: where a window
// holds no other moment, the next begins where it began.
const leastWindow = 1024

// seen is a window of the records.
type seen struct {
	end                     pgtype.Timestamptz
	count, dropped, waiting int64
	needy                   int64 // keys that need a person
}

// dropFor is how long one sweep drops answers. The rest between two sweeps of a guard is about as long.
const dropFor = time.Second

// dropDueAnswers drops answers while there are some, for a while: a service may make many between two sweeps.
func (s *Store) dropDueAnswers(ctx context.Context, limit int) error {
	for end := time.Now().Add(dropFor); ; {
		dropped, err := s.dropAnswers(ctx, limit)
		if err != nil || dropped == 0 || time.Now().After(end) {
			return err
		}
	}
}

// dropAnswers drops at most limit of the answers that are past their time, and returns how many. It looks at a window of
// the records, and the next call looks at the next window. No index could tell which answers are
// due. Every completion would have to maintain such an index, and would cost more.
func (s *Store) dropAnswers(ctx context.Context, limit int) (dropped int64, err error) {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	window := max(int64(limit)*answerWindow, leastWindow)
	st := s.query().DropAnswers.Bind(pgx.NamedArgs{"after": after(s.answers.after), "limit": int64(limit), "window": window})
	if s.query().distributed {
		st = s.query().AnswerKeys.Bind(pgx.NamedArgs{"after": after(s.answers.after), "window": window})
	}
	w, err := pgkit.RetryConflict(ctx, func() (seen, error) {
		if s.query().distributed {
			return s.dropAnswersByKey(ctx, st, limit)
		}
		w, _, err := pgkit.Row(ctx, s.db.Writer, st, func(row pgx.CollectableRow) (w seen, err error) {
			return w, row.Scan(&w.end, &w.count, &w.dropped, &w.waiting, &w.needy)
		})
		return w, err
	})
	if err == nil && w.needy > 0 {
		err = s.findAttention(ctx, after(s.answers.after), w.end)
	}
	if err != nil {
		return 0, err
	}
	switch {
	case w.dropped == int64(limit): // perhaps there are more in this window
	case w.count < window, w.waiting == w.count: // the end, or nothing but what is too young
		s.answers.after = time.Time{}
	default:
		s.answers.after = w.end.Time
	}
	return w.dropped, nil
}

// opaqueWindow is how many Opaque records one statement looks at. Of distributed tables each shard sends as many.
func opaqueWindow(distributed bool) int64 {
	if distributed {
		return 1000
	}
	return 10_000
}

// findDead notes the dead runs among the Opaque records, window after window for a while. The next call goes on there,
// and from the start after the end. Lists read the notes, and the youngest records beside them.
func (s *Store) findDead(ctx context.Context) error {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	window := opaqueWindow(s.query().distributed)
	for end := time.Now().Add(dropFor); time.Now().Before(end); {
		st := s.query().FindDead.Bind(pgx.NamedArgs{
			"after_created_at": after(s.answers.opaque.CreatedAt), "after_key": toUUID(s.answers.opaque.ID), "window": window,
		})
		var count int64
		dead, _, err := pgkit.Row(ctx, s.db.Writer, st, func(row pgx.CollectableRow) (dead []pgtype.UUID, err error) {
			var last pgtype.Timestamptz
			var key pgtype.UUID
			err = row.Scan(&count, &last, &key, &dead)
			s.answers.opaque = store.Cursor{CreatedAt: last.Time, ID: key.Bytes}
			return dead, err
		})
		if err == nil && len(dead) > 0 { // of distributed tables
			err = s.unlessHeld(ctx, s.query().NoteDead.Bind(pgx.NamedArgs{"keys": dead}))
		}
		if err != nil || count < window {
			s.answers.opaque = store.Cursor{}
			return err
		}
	}
	return nil
}

// auditBatch is how many lines of the audit log one statement deletes.
const auditBatch = 1000

// PruneAudit deletes the lines of the audit log that are older than age, in batches of a thousand,
// and returns how many it deleted, also with an error. No other statement deletes from the audit
// log: services write down what is done to keys, and cannot take it back. So it needs a role that
// owns the tables ([RolesSQL]).
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (s *Store) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > store.MaxRetention {
		return 0, badArgument("age %v is not positive", age)
	}
	st := s.query().PruneAudit.Bind(pgx.NamedArgs{"age": age, "limit": int64(auditBatch)})
	n, err := pgkit.ExecInBatches(ctx, s.db.Writer, st, auditBatch)
	return n, wrap("prune audit log", err)
}
