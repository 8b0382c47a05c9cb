package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

var errAttempt = errors.New("attempt failed")

// letters is an inbox whose dead letters are rows. In a Transactional inbox the
// run's transaction writes them.
type letters struct {
	inbox  *inbox.Inbox
	store  *pgstore.Store
	look   *pgxpool.Pool
	causes []error                         // of the calls of DeadLetter
	fail   func(ctx context.Context) error // what DeadLetter does after its row
}

func newLetters(t *testing.T, effect server.Effect) *letters {
	t.Helper()
	l := new(letters)
	l.store, l.look = open(t, pgstore.Config{})
	exec(t, l.look, "create table letter (what text)")
	g, err := server.NewGuard(l.store, server.Unscoped, server.Config{MaxRecoveryAttempts: 1})
	require.NoError(t, err)
	l.inbox, err = inbox.New(g, inbox.Config{Consumer: "shipping", Effect: effect, MaxAttempts: 2, DeadLetter: l.write})
	require.NoError(t, err)
	return l
}

func (l *letters) write(ctx context.Context, m inbox.Message, cause error) error {
	l.causes = append(l.causes, cause)
	const insert = "insert into letter values ($1)"
	var err error
	if tx := pgstore.Tx(ctx); tx.Conn() != nil {
		_, err = tx.Exec(ctx, insert, string(m.Payload))
	} else {
		_, err = l.look.Exec(ctx, insert, string(m.Payload))
	}
	if err == nil && l.fail != nil {
		err = l.fail(ctx)
	}
	return err
}

func (l *letters) count(t *testing.T) int {
	return queryRow[int](t, l.look, "select count(*) from letter")
}

func handled(context.Context, []byte) error { return nil }

// Each case is a way in which a message can never run.
var neverRuns = []struct {
	code wire.Code
	put  func(t *testing.T, l *letters, m *inbox.Message)
}{
	{wire.KeyReused, func(t *testing.T, l *letters, m *inbox.Message) {
		d, err := l.inbox.Handle(t.Context(), *m, handled)
		require.NoError(t, err)
		require.Equal(t, inbox.Ran, d.Result)
		m.Payload = []byte("order-42 of a later producer")
	}},
	{wire.KeyCancelled, func(t *testing.T, l *letters, m *inbox.Message) {
		key, err := l.inbox.Key(*m)
		require.NoError(t, err)
		id := store.NewID("inbox", "inbox/shipping", key)
		_, _, err = l.store.Cancel(t.Context(), store.CancelRequest{ID: id, Token: random(), Keep: time.Hour})
		require.NoError(t, err)
	}},
	{wire.Poisoned, func(t *testing.T, l *letters, m *inbox.Message) {
		_, err := l.inbox.Handle(t.Context(), *m, func(context.Context, []byte) error { return errAttempt })
		require.ErrorIs(t, err, errAttempt)
		exec(t, l.look, "update idempotency set state = 5")
	}},
	{wire.OutcomeUnknown, func(t *testing.T, l *letters, m *inbox.Message) {
		_, err := l.inbox.Handle(t.Context(), *m, func(context.Context, []byte) error { return errAttempt })
		require.ErrorIs(t, err, errAttempt)
		exec(t, l.look, "update idempotency set state = 4")
	}},
}

// Every dead letter has a transaction in a Transactional inbox, and is written once,
// however often the message is delivered.
func TestInbox_deadLetterOfWhatNeverRuns(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, tt := range neverRuns {
			t.Run(effect.String()+" "+string(tt.code), func(t *testing.T) {
				t.Parallel()
				l := newLetters(t, effect)
				m := inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("order-42")}
				tt.put(t, l, &m)
				l.fail = func(context.Context) error { return errAttempt } // the broker is down, say
				d, err := l.inbox.Handle(t.Context(), m, handled)
				require.ErrorIs(t, err, errAttempt)
				require.Equal(t, inbox.Failed, d.Result)
				before := l.count(t)
				if effect == server.Transactional {
					require.Zero(t, before, "rolled back")
				}
				l.fail = nil
				for range 3 {
					d, _ = l.inbox.Handle(t.Context(), m, handled)
					require.Equal(t, inbox.Dead, d.Result)
				}
				require.Equal(t, 1, l.count(t)-before)
				require.Len(t, l.causes, 2)
				var refused *server.RefusedError
				require.ErrorAs(t, l.causes[1], &refused)
				require.Equal(t, tt.code, refused.Code)
				a, err := l.store.Reader().Attention(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, a.DeadLetters, "the run that wrote it is noted, in its own transaction")
			})
		}
	}
}

// The same key with another payload, without a source, is another letter.
func TestInbox_deadLetterOfEachPayload(t *testing.T) {
	t.Parallel()
	l := newLetters(t, server.Transactional)
	for _, payload := range []string{"first", "second", "third", "second"} {
		_, _ = l.inbox.Handle(t.Context(), inbox.Message{ID: "42", Payload: []byte(payload)}, handled)
	}
	require.Equal(t, 2, l.count(t))
}

// A dead letter whose statement failed without being looked at is not written, and so
// the message is not dead.
func TestInbox_deadLetterNotCommitted(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"select 1 / 0", "insert into strict values (1), (1)"} {
		l := newLetters(t, server.Transactional)
		exec(t, l.look, "create table strict (n int unique deferrable initially deferred)")
		m := inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("order-42")}
		fails := func(context.Context, []byte) error { return errAttempt }
		_, err := l.inbox.Handle(t.Context(), m, fails)
		require.ErrorIs(t, err, errAttempt)
		l.fail = func(ctx context.Context) error {
			_, _ = pgstore.Tx(ctx).Exec(ctx, statement)
			return nil
		}
		for range 2 {
			d, err := l.inbox.Handle(t.Context(), m, fails) // the last attempt, and then the letter alone
			require.Error(t, err)
			require.Equal(t, inbox.Failed, d.Result)
			require.Zero(t, l.count(t))
		}
		l.fail = nil
		d, err := l.inbox.Handle(t.Context(), m, fails)
		require.Equal(t, inbox.Dead, d.Result)
		require.Error(t, err)
		require.Equal(t, 1, l.count(t))
	}
}

// A message whose transaction is refused has had its attempt, and its last one writes the
// dead letter.
func TestInbox_transactionFailed(t *testing.T) {
	t.Parallel()
	l := newLetters(t, server.Transactional)
	m := inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("order-42")}
	swallows := func(ctx context.Context, _ []byte) error {
		_, _ = pgstore.Tx(ctx).Exec(ctx, "select 1 / 0")
		return nil
	}
	d, err := l.inbox.Handle(t.Context(), m, swallows)
	require.Equal(t, inbox.Failed, d.Result)
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.TransactionFailed})
	d, err = l.inbox.Handle(t.Context(), m, swallows)
	require.Equal(t, inbox.Dead, d.Result)
	var refused *store.TxError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "22012", refused.SQLState)
	require.Equal(t, 1, l.count(t))
}
