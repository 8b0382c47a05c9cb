package pgstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

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
		st := s.query.settle.BindFunc(settleArgs(end.owner, end.end, s.db.Briefly))
		if err := sendSettings(ctx, tx, st); err != nil {
			return false, err
		}
		settled, err := pgkit.All(ctx, tx, st, scanSettled)
		if err != nil || len(settled) == 0 {
			return false, err
		}
		return true, s.noteAttention(ctx, tx, end.owner.ID, end.owner.Fence, end.end.State)
	})
}

// noteAttention is a part of the transaction that moves the record to state.
func (s *Store) noteAttention(ctx context.Context, db executor, id store.ID, fence int64, state store.State) error {
	return execute(ctx, db, s.noteStatement(id, fence, state))
}

// noteInTx returns the statements that go before a settlement in a handler's transaction, with
// names. There are none if no person is needed after it. The wait for a note is bounded like the
// settlement's own wait.
func (s *Store) noteInTx(ctx context.Context, conn *pgx.Conn, end settlement) ([]pgkit.Statement, error) {
	if !needsAttention(end.end) {
		return nil, nil
	}
	notes := []pgkit.Statement{
		s.query.setLockTimeout.Bind(pgx.NamedArgs{"lock_timeout": s.db.LockTimeout}),
		s.noteStatement(end.owner.ID, end.owner.Fence, end.end.State),
	}
	for _, st := range notes {
		if err := st.Err(); err != nil {
			return nil, err
		}
		if err := pgkit.Name(ctx, conn, st.SQL); err != nil {
			return nil, err
		}
	}
	return notes, nil
}

func (s *Store) noteStatement(id store.ID, fence int64, state store.State) pgkit.Statement {
	return s.query.noteAttention.Bind(pgx.NamedArgs{"key": uuid(id), "fence": fence, "state": int16(state)})
}

// dropAttention is a part of the transaction after which no person is needed.
func (s *Store) dropAttention(ctx context.Context, db executor, id store.ID) error {
	return execute(ctx, db, s.query.dropAttention.Bind(pgx.NamedArgs{"key": uuid(id)}))
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

// moveWith is moveAs in a transaction, which ends with then if the update did anything.
func (s *Store) moveWith(ctx context.Context, id store.ID, token store.Token, st pgkit.Statement,
	then func(context.Context, pgx.Tx, store.Record) error,
) (store.Record, bool, error) {
	return s.moveBy(ctx, id, token, func() (moved, error) {
		return pgkit.Tx(ctx, s.db.Writer, func(ctx context.Context, tx pgx.Tx) (moved, error) {
			return moveIn(ctx, tx, st, then)
		})
	})
}

// verbTime is how long the server works for one statement of an operator's verb at most.
const verbTime = 10 * time.Second

// moveBounded is moveWith for the verb of an operator. The server itself ends a statement that takes too long.
func (s *Store) moveBounded(ctx context.Context, id store.ID, st pgkit.Statement) (store.Record, bool, error) {
	return s.moveBy(ctx, id, store.Token{}, func() (moved, error) {
		return pgkit.TxBounded(ctx, s.db.Writer, pgkit.StatementLimit(ctx, verbTime), func(ctx context.Context, tx pgx.Tx) (moved, error) {
			return moveIn(ctx, tx, st, s.unnoted)
		})
	})
}

func moveIn(ctx context.Context, tx pgx.Tx, st pgkit.Statement, then func(context.Context, pgx.Tx, store.Record) error) (m moved, err error) {
	if err := sendSettings(ctx, tx, st); err != nil {
		return m, err
	}
	m.found, err = pgkit.One(ctx, tx, st, scanRecord)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, nil
	}
	if err == nil {
		err = then(ctx, tx, m.Record)
	}
	m.ok = err == nil
	return m, err
}

// noted is for a move after which a person is needed.
func (s *Store) noted(ctx context.Context, tx pgx.Tx, r store.Record) error {
	return s.noteAttention(ctx, tx, r.ID, r.Fence, r.State)
}

// unnoted is for a move after which no person is needed.
func (s *Store) unnoted(ctx context.Context, tx pgx.Tx, r store.Record) error {
	return s.dropAttention(ctx, tx, r.ID)
}

// hasNotes reports whether all records that req asks for have notes.
func hasNotes(req store.ListRequest) bool {
	if req.Parent != (store.ID{}) {
		return false
	}
	return req.DeadLetters || len(req.States) > 0 && !slices.ContainsFunc(req.States, func(state store.State) bool {
		return state != store.StateUnknown && state != store.StateQuarantined
	})
}

// Attention implements [store.OperatorStore]. It reads the notes of the keys that need a person,
// and looks up their records.
func (s *Store) Attention(ctx context.Context) (store.Attention, error) {
	all, err := pgkit.All(ctx, s.db.Pool, s.query.countAttention.Bind(nil), scanCountedNotes)
	return attentionOf(all), wrap("attention", err)
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

// sweepAttention deletes notes that outlived their reasons.
func (s *Store) sweepAttention(ctx context.Context) error {
	return s.unlessHeld(ctx, s.query.sweepAttention.Bind(nil))
}

// findAttention makes the notes that a process of version 1 did not make, in a window of the
// records.
func (s *Store) findAttention(ctx context.Context, from, until pgtype.Timestamptz) error {
	return s.unlessHeld(ctx, s.query.findAttention.Bind(pgx.NamedArgs{"after": from, "until": until}))
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
