package pgstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Resolve implements [store.OperatorStore], in a transaction of two statements if it does
// anything. The server itself ends a statement after 10 s, or earlier if ctx ends earlier.
func (s *Store) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	args := pgx.NamedArgs{
		"key": toUUID(req.ID), "from": req.From, "to": int16(req.To), "token": toUUID(req.Token),
		"recovery_attempts": int32(req.RecoveryAttempts), "maybe_ran": req.MaybeRan, //nolint:gosec // Check bounds it
		"status": pgtype.Int4{}, "envelope": []byte(nil), "replay_for": pgtype.Interval{}, "keep": pgtype.Interval{},
		"keep_answer": intervalOrNull(req.KeepAnswer),
		"verb":        string(req.By.Verb), "actor": req.By.Actor, "reason": req.By.Reason, "lock_timeout": s.db.Briefly,
	}
	switch req.To {
	case store.StateCompleted:
		args["status"] = pgtype.Int4{Int32: int32(req.Answer.Status), Valid: true} //nolint:gosec // Check bounds it
		args["envelope"], args["replay_for"] = req.Answer.Envelope, toInterval(req.ReplayFor)
	case store.StateCancelled:
		args["keep"] = toInterval(req.Keep)
	}
	st := s.query().Resolve.Bind(args)
	r, ok, err := s.retryPatiently(ctx, func() (store.Record, bool, error) {
		return s.moveNoted(ctx, req.ID, st, false, s.dropAttention)
	})
	if err == nil && !ok && r.Token == req.Token && r.Fence == req.From+1 {
		ok = true // done before, and its answer was lost
	}
	return r, ok, wrap("resolve", err)
}

// Forget implements [store.OperatorStore], in a transaction of two statements if it does anything. The server ends a
// statement as for Resolve. If
// answers are in partitions, it takes a transaction of four. A damaged record can be forgotten: it is returned as
// far as it can be read.
func (s *Store) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	st := s.query().Forget.Bind(pgx.NamedArgs{
		"key": toUUID(id), "from": from, "lock_timeout": s.db.Briefly,
		"verb": string(by.Verb), "actor": by.Actor, "reason": by.Reason,
	})
	r, ok, err := s.retryPatiently(ctx, func() (store.Record, bool, error) {
		return s.moveNoted(ctx, id, st, s.cfg.Answers != AnswersInline, s.dropAttention)
	})
	if ok && errors.Is(err, store.ErrRecordUnreadable) {
		err = nil // the damage does not matter for a record that is forgotten
	}
	return r, ok, wrap("forget", err)
}

// Defer implements [store.OperatorStore], in one statement.
func (s *Store) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := store.CheckLease(d); err != nil {
		return false, err
	}
	st := s.query().Defer.Bind(pgx.NamedArgs{"key": toUUID(id), "from": from, "lease": d, "lock_timeout": s.db.LockTimeout})
	won, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, s.db.Writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err != nil || won {
		return won, wrap("defer", err)
	}
	_, err = s.Read(ctx, id) // not found, or somebody else's by now
	return false, err
}

func scanAuditEntry(row pgx.CollectableRow) (e store.AuditEntry, err error) {
	var key pgtype.UUID
	var verb string
	var from, to int16
	if err := row.Scan(&e.Number, &e.At, &key, &verb, &e.Actor, &e.Reason, &from, &to, &e.Fence); err != nil {
		return e, err
	}
	if from < 0 || from > math.MaxUint8 || to < 0 || to > math.MaxUint8 {
		return e, errors.New("audit entry of no known state")
	}
	e.At, e.ID, e.Verb = e.At.UTC(), key.Bytes, store.Verb(verb)
	e.From, e.To = store.State(from), store.State(to)
	return e, nil
}

// The keys that need a person have notes in a table of their own. Writes that make or end such a
// key are few: they take a transaction of several statements, and other writes pay nothing.

// needsAttention reports whether a settled key needs a person.
func needsAttention(end store.Settlement) bool {
	return end.State == store.StateUnknown || end.State == store.StateCompleted && end.DeadLetter
}

// settleNoted is a settlement after which a person is needed, in a commit of its own. The answer
// stays in the record.
func (s *Store) settleNoted(ctx context.Context, end settlement) (bool, error) {
	return pgkit.Tx(ctx, s.db.Writer, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		st := s.query().Settle.Bind(settleArgs(end.owner, end.end, s.db.Briefly))
		if err := sendSettings(ctx, tx, st); err != nil {
			return false, err
		}
		settled, err := pgkit.All(ctx, tx, st, scanSettled)
		if err != nil || len(settled) == 0 {
			return false, err
		}
		return true, s.noteAttention(ctx, tx, store.Record{ID: end.owner.ID, Fence: end.owner.Fence, State: end.end.State})
	})
}

// settleUnknown settles a record that became unknown, in a commit of its own. No person is needed for it any more.
func (s *Store) settleUnknown(ctx context.Context, end settlement) error {
	settled, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		return pgkit.Tx(ctx, s.db.Writer, func(ctx context.Context, tx pgx.Tx) (bool, error) {
			st := s.query().EndUnknown.Bind(settleArgs(end.owner, end.end, s.db.LockTimeout))
			if err := sendSettings(ctx, tx, st); err != nil {
				return false, err
			}
			settled, err := pgkit.All(ctx, tx, st, scanSettled)
			if err != nil || len(settled) == 0 {
				return false, err
			}
			now := store.Record{ID: end.owner.ID, Fence: end.owner.Fence, State: end.end.State}
			if needsAttention(end.end) {
				return true, s.noteAttention(ctx, tx, now)
			}
			return true, s.dropAttention(ctx, tx, now)
		})
	})
	if err == nil && !settled {
		err = store.ErrLeaseLost
	}
	return err
}

// noteAttention is a part of the transaction after which r needs a person.
func (s *Store) noteAttention(ctx context.Context, db executor, r store.Record) error {
	return execute(ctx, db, s.noteStatement(r.ID, r.Fence, r.State))
}

// notesOf returns the statements that note a settlement in a handler's transaction. There are none if no person is needed
// after it. The wait for a note is bounded like the settlement's own wait.
func (s *Store) notesOf(end settlement) []pgkit.Statement {
	if !needsAttention(end.end) {
		return nil
	}
	return []pgkit.Statement{
		s.query().SetLockTimeout.Bind(pgx.NamedArgs{"lock_timeout": s.db.LockTimeout}),
		s.noteStatement(end.owner.ID, end.owner.Fence, end.end.State),
	}
}

func (s *Store) noteStatement(id store.ID, fence int64, state store.State) pgkit.Statement {
	return s.query().NoteAttention.Bind(pgx.NamedArgs{"key": toUUID(id), "fence": fence, "state": int16(state)})
}

// dropAttention is a part of the transaction after which r needs no person.
func (s *Store) dropAttention(ctx context.Context, db executor, r store.Record) error {
	return execute(ctx, db, s.query().DropAttention.Bind(pgx.NamedArgs{"key": toUUID(r.ID)}))
}

// sendSettings sends the settings that st needs before it, mostly none.
func sendSettings(ctx context.Context, db executor, st pgkit.Statement) error {
	for _, setting := range st.Settings() {
		if _, err := db.Exec(ctx, setting); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, db executor, st pgkit.Statement) error {
	if err := st.Err(); err != nil {
		return err
	}
	_, err := db.Exec(ctx, st.SQL, st.Args...)
	return err
}

// verbTime is how long the server works for one statement of an operator's verb at most.
const verbTime = 10 * time.Second

// moveNoted is moveAs in a transaction that ends with note if the update did anything: note makes or drops the note on
// the key. The server itself ends a statement that takes too long. With lock the record is locked before. Otherwise st
// would see a partition as it was before a wait for the lock, and would miss the answer that it waited for.
func (s *Store) moveNoted(ctx context.Context, id store.ID, st pgkit.Statement, lock bool,
	note func(context.Context, executor, store.Record) error,
) (store.Record, bool, error) {
	move := func(ctx context.Context, tx pgx.Tx) (m moved, err error) {
		if lock {
			if err := s.lockRecord(ctx, tx, id); err != nil {
				return m, err
			}
		}
		if err := sendSettings(ctx, tx, st); err != nil {
			return m, err
		}
		m.found, err = pgkit.One(ctx, tx, st, scanRecord)
		if err == nil {
			err = note(ctx, tx, m.Record)
		}
		m.ok = err == nil
		return m, err
	}
	return s.moveBy(ctx, id, store.Token{}, func() (moved, error) {
		m, err := pgkit.TxBounded(ctx, s.db.Writer, pgkit.StatementLimit(ctx, verbTime), move)
		if errors.Is(err, pgx.ErrNoRows) { // the update did nothing
			return moved{}, nil
		}
		return m, err
	})
}

// lockRecord returns an error wrapping [pgx.ErrNoRows] if there is no record.
func (s *Store) lockRecord(ctx context.Context, tx pgx.Tx, id store.ID) error {
	if _, err := s.setLockTimeout(ctx, tx, s.db.Briefly); err != nil {
		return err
	}
	_, err := pgkit.One(ctx, tx, s.query().Lock.Bind(pgx.NamedArgs{"key": toUUID(id)}), scanFound)
	return err
}

// countedNotes say how many keys need a person because of one state.
type countedNotes struct {
	state int16
	count int64
	age   time.Duration // of the oldest
}

func scanCountedNotes(row pgx.CollectableRow) (c countedNotes, err error) {
	return c, row.Scan(&c.state, &c.count, &c.age)
}

func attentionOf(all []countedNotes) (a store.Attention) {
	for _, c := range all {
		a.Oldest = max(a.Oldest, c.age)
		switch c.state {
		case int16(store.StateUnknown):
			a.Unknown = c.count
		case int16(store.StateQuarantined):
			a.Quarantined = c.count
		default:
			a.DeadLetters = c.count
		}
	}
	return a
}

// noteWindow is how many notes one sweep looks at.
const noteWindow = 2500

// sweepAttention deletes notes that outlived their reasons, in a window of the notes. The next call goes on there, and
// from the start after the end.
func (s *Store) sweepAttention(ctx context.Context) error {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	from := s.answers.notes
	st := s.query().StaleNotes.Bind(pgx.NamedArgs{
		"after_created_at": after(from.CreatedAt), "after_key": toUUID(from.ID), "window": int64(noteWindow),
	})
	var count int64
	stale, err := pgkit.One(ctx, s.db.Pool, st, func(row pgx.CollectableRow) (stale []pgtype.UUID, err error) {
		var last pgtype.Timestamptz
		var key pgtype.UUID
		err = row.Scan(&count, &last, &key, &stale)
		s.answers.notes = store.Cursor{CreatedAt: last.Time, ID: key.Bytes}
		return stale, err
	})
	if err != nil || count < noteWindow {
		s.answers.notes = store.Cursor{}
	}
	if err != nil || len(stale) == 0 {
		return err
	}
	return s.unlessHeld(ctx, s.query().SweepAttention.Bind(pgx.NamedArgs{"keys": stale}))
}

// findAttention makes the notes that a process of version 1 did not make, in a window of the
// records.
func (s *Store) findAttention(ctx context.Context, from, until pgtype.Timestamptz) error {
	return s.unlessHeld(ctx, s.query().FindAttention.Bind(pgx.NamedArgs{"after": from, "until": until}))
}

// unlessHeld sends a statement on notes. If a transaction such as an undo's holds one of them, the
// statement is left to the next sweep.
func (s *Store) unlessHeld(ctx context.Context, st pgkit.Statement) error {
	_, err := pgkit.RetryConflict(ctx, func() (struct{}, error) {
		return pgkit.Tx(ctx, s.db.Writer, func(ctx context.Context, tx pgx.Tx) (none struct{}, err error) {
			if _, err := s.setLockTimeout(ctx, tx, s.db.Briefly); err != nil {
				return none, err
			}
			return none, execute(ctx, tx, st)
		})
	})
	if pgkit.Classify(err) == pgkit.FailureLockTimeout {
		return nil
	}
	return err
}
