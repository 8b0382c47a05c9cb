package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

var errDown = errors.New("store is down")

func newGuard(tb testing.TB, s store.Store, cfg server.Config) *server.Guard {
	tb.Helper()
	g, err := server.NewGuard(s, server.Unscoped, cfg)
	require.NoError(tb, err)
	return g
}

// A plainStore hides that a store has transactions.
type plainStore struct{ store.Store }

// A mute is a store that gets only the claim of a dying process, and no later call.
type mute struct{ store.TxStore }

func (mute) Renew(context.Context, []store.Owner, time.Duration) (store.Renewal, error) {
	return store.Renewal{}, errDown
}

func (mute) Settle(context.Context, store.Owner, store.Settlement) error { return errDown }

func newInbox(tb testing.TB, g *server.Guard, cfg inbox.Config) *inbox.Inbox {
	tb.Helper()
	b, err := inbox.New(g, cfg)
	require.NoError(tb, err)
	return b
}

var message = inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("tea")}

func TestInbox_once(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		g := newGuard(t, memstore.New(), server.Config{})
		mails := newInbox(t, g, inbox.Config{Consumer: "mails", Effect: effect})
		stock := newInbox(t, g, inbox.Config{Consumer: "stock", Effect: effect})
		runs := 0
		fn := func(ctx context.Context, payload []byte) error {
			runs++
			require.Equal(t, "tea", string(payload))
			parent, ok := childkey.FromContext(ctx)
			require.True(t, ok)
			require.False(t, parent.IsZero())
			return nil
		}
		for i, want := range []inbox.Result{inbox.Ran, inbox.Duplicate, inbox.Duplicate} {
			got, err := mails.Handle(t.Context(), message, fn)
			require.NoError(t, err)
			require.Equal(t, want, got.Result, "delivery %d", i)
			require.True(t, got.Ack())
		}
		got, err := stock.Handle(t.Context(), message, fn)
		require.NoError(t, err)
		require.Equal(t, inbox.Ran, got.Result, "two consumers of a message are two matters")
		otherTopic := message
		otherTopic.Source = "returns"
		got, err = mails.Handle(t.Context(), otherTopic, fn)
		require.NoError(t, err)
		require.Equal(t, inbox.Ran, got.Result)
		require.Equal(t, 3, runs)
		l, err := mails.Lookup(t.Context(), message)
		require.NoError(t, err)
		require.Equal(t, server.StateCompleted, l.State)
	}
}

// Source and ID are separate fields of the key: two different messages never have the same key.
func TestInbox_keys(t *testing.T) {
	t.Parallel()
	b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{Consumer: "c", Effect: server.Keyed})
	keys := make(map[childkey.Key]inbox.Message)
	for _, m := range []inbox.Message{{ID: "ab"}, {Source: "a", ID: "b"}, {Source: "ab", ID: "c"}, {Source: "a", ID: "bc"}, {ID: "\x00\xff, \""}} {
		k, err := b.Key(m)
		require.NoError(t, err)
		require.NotContains(t, keys, k)
		keys[k] = m
	}
	for _, m := range []inbox.Message{{}, {Source: "s"}, {ID: strings.Repeat("i", 257)}, {Source: strings.Repeat("s", 257), ID: "i"}} {
		got, err := b.Handle(t.Context(), m, func(context.Context, []byte) error { t.Error("it ran"); return nil })
		require.ErrorIs(t, err, server.ErrArgument)
		require.ErrorContains(t, err, fmt.Sprintf("the ID of a message has %d bytes and its Source %d", len(m.ID), len(m.Source)))
		require.Equal(t, inbox.Dead, got.Result, "it never can run")
	}
}

func TestInbox_deadLetter(t *testing.T) {
	t.Parallel()
	shared := memstore.New()
	failure := errors.New("no such product")
	var letters []string
	rows, fail := 0, true
	b := newInbox(t, newGuard(t, shared, server.Config{}), inbox.Config{
		Consumer: "stock", Effect: server.Transactional, MaxAttempts: 3,
		DeadLetter: func(ctx context.Context, m inbox.Message, cause error) error {
			if fail {
				fail = false
				return errors.New("the letter box is full")
			}
			return memstore.Tx(ctx).Do(func() { letters = append(letters, fmt.Sprintf("%s: %v", m.Payload, cause)) })
		},
	})
	attempts := 0
	deliver := func() (inbox.Delivery, error) {
		return b.Handle(t.Context(), message, func(ctx context.Context, _ []byte) error {
			attempts++
			return errors.Join(memstore.Tx(ctx).Do(func() { rows++ }), failure)
		})
	}
	for range 2 {
		got, err := deliver()
		require.ErrorIs(t, err, failure)
		require.Equal(t, inbox.Failed, got.Result)
	}
	got, err := deliver()
	require.ErrorContains(t, err, "the letter box is full")
	require.Equal(t, inbox.Failed, got.Result, "a letter that was not written leaves the message")
	require.Empty(t, letters)

	got, err = deliver()
	require.ErrorIs(t, err, inbox.ErrAttemptsSpent)
	require.Equal(t, inbox.Dead, got.Result)
	require.Equal(t, []string{"tea: " + inbox.ErrAttemptsSpent.Error()}, letters)
	require.Equal(t, 3, attempts)
	require.Zero(t, rows, "no attempt left anything")
	got, err = deliver()
	require.NoError(t, err)
	require.Equal(t, inbox.Dead, got.Result)
	require.True(t, got.Ack())
	require.Len(t, letters, 1)
	require.Equal(t, 3, attempts)
	listed, err := shared.Reader().List(t.Context(), store.ListRequest{DeadLetters: true, Limit: 10})
	require.NoError(t, err)
	require.Len(t, listed, 1, "a person finds the message")
	require.EqualValues(t, 5, listed[0].Fence, "three attempts, a letter that failed, and the run that wrote the letter")
}

// The last attempt's own error is the letter's cause.
func TestInbox_deadLetterAtOnce(t *testing.T) {
	t.Parallel()
	var causes []error
	failure := errors.New("no such product")
	b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
		Consumer: "stock", Effect: server.Keyed, MaxAttempts: 1,
		DeadLetter: func(_ context.Context, _ inbox.Message, cause error) error {
			causes = append(causes, cause)
			return nil
		},
	})
	got, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return failure })
	require.Equal(t, inbox.Dead, got.Result)
	require.ErrorIs(t, err, failure)
	require.Equal(t, []error{failure}, causes)
}

// A message that can never run is a dead letter at once, and its record stays for a person.
func TestInbox_neverRuns(t *testing.T) {
	t.Parallel()
	var causes []error
	b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
		Consumer: "stock", Effect: server.Opaque,
		DeadLetter: func(_ context.Context, _ inbox.Message, cause error) error {
			causes = append(causes, cause)
			return nil
		},
	})
	failing := func(context.Context, []byte) error { return errors.New("timeout") }
	got, _ := b.Handle(t.Context(), message, failing)
	require.Equal(t, inbox.Failed, got.Result)
	got, err := b.Handle(t.Context(), message, failing)
	require.Equal(t, inbox.Dead, got.Result)
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.OutcomeUnknown})
	changed := message
	changed.Payload = []byte("coffee")
	got, err = b.Handle(t.Context(), changed, failing)
	require.Equal(t, inbox.Dead, got.Result)
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyReused})
	require.Len(t, causes, 2)
	l, err := b.Lookup(t.Context(), message)
	require.NoError(t, err)
	require.Equal(t, server.StateUnknown, l.State)
}

// A panic is a failed attempt, and the caller recovers it.
func TestInbox_panics(t *testing.T) {
	t.Parallel()
	for effect, want := range map[server.Effect]inbox.Result{
		server.Transactional: inbox.Ran, server.Keyed: inbox.Ran, server.Opaque: inbox.Dead,
	} {
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{Consumer: "c", Effect: effect})
		require.PanicsWithValue(t, "boom", func() {
			_, _ = b.Handle(t.Context(), message, func(context.Context, []byte) error { panic("boom") })
		})
		got, _ := b.Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
		require.Equal(t, want, got.Result, effect)
	}
}

// A message that kills its consumers is quarantined, and then a dead letter.
func TestInbox_killer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		letters := 0
		cfg := inbox.Config{
			Consumer: "stock", Effect: server.Keyed,
			DeadLetter: func(context.Context, inbox.Message, error) error { letters++; return nil },
		}
		healthy := newInbox(t, newGuard(t, shared, server.Config{MaxRecoveryAttempts: 2}), cfg)
		deadly := mute{shared}
		for range 3 {
			got, err := newInbox(t, newGuard(t, deadly, server.Config{MaxRecoveryAttempts: 2}), cfg).Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
			require.ErrorIs(t, err, &server.RefusedError{Code: wire.StoreUnavailable})
			require.Equal(t, inbox.Failed, got.Result)
			time.Sleep(server.DefaultLease)
		}
		for i := range 2 {
			got, err := healthy.Handle(t.Context(), message, func(context.Context, []byte) error { t.Error("it ran"); return nil })
			require.Equal(t, inbox.Dead, got.Result)
			require.Equal(t, i == 0, err != nil)
		}
		require.Equal(t, 1, letters)
	})
}

func TestInbox_busy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{Consumer: "stock", Effect: server.Keyed})
		slowly := func(context.Context, []byte) error { time.Sleep(3 * time.Second); return nil }
		go func() { _, _ = b.Handle(t.Context(), message, slowly) }()
		time.Sleep(time.Second)
		got, err := b.Handle(t.Context(), message, slowly)
		require.Equal(t, inbox.Busy, got.Result)
		require.False(t, got.Ack())
		var refused *server.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, time.Second, refused.RetryAfter)
		require.True(t, refused.Retryable())
		time.Sleep(time.Hour)
	})
}

func TestNewInbox_rejects(t *testing.T) {
	t.Parallel()
	g := newGuard(t, plainStore{memstore.New()}, server.Config{})
	for _, tt := range []struct {
		name  string
		g     *server.Guard
		cfg   inbox.Config
		field string
	}{
		{"no guard", nil, inbox.Config{Consumer: "c", Effect: server.Keyed}, "guard"},
		{"no consumer", g, inbox.Config{Effect: server.Keyed}, "inbox.Config.Consumer"},
		{"bad consumer", g, inbox.Config{Consumer: "a:b", Effect: server.Keyed}, "inbox.Config.Consumer"},
		{"no effect", g, inbox.Config{Consumer: "c"}, "inbox.Config.Effect"},
		{"no transactions", g, inbox.Config{Consumer: "c", Effect: server.Transactional}, "inbox.Config.Effect"},
		{"negative", g, inbox.Config{Consumer: "c", Effect: server.Keyed, MaxAttempts: -1}, "inbox.Config.MaxAttempts"},
	} {
		_, err := inbox.New(tt.g, tt.cfg)
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, tt.name)
		require.Equal(t, tt.field, rejected.Field, tt.name)
	}
	b := newInbox(t, g, inbox.Config{Consumer: "c", Effect: server.Keyed})
	_, err := b.Handle(t.Context(), message, nil)
	var rejected *server.ConfigError
	require.ErrorAs(t, err, &rejected)
}

// A scripted broker delivers at least once. It repeats messages without reason,
// and delivers to two consumers at the same time or out of order. It also
// repeats them after a consumer died between its effect and the
// acknowledgement. It drops a message only when told to.
type broker struct {
	mu      sync.Mutex
	random  *rand.Rand
	waiting []inbox.Message
	unacked int
}

func (b *broker) next() (inbox.Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return inbox.Message{}, b.unacked > 0
	}
	i := b.random.IntN(len(b.waiting))
	m := b.waiting[i]
	if b.random.IntN(4) > 0 { // otherwise it stays, and another consumer gets it too
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	b.unacked++
	return m, true
}

func (b *broker) done(m inbox.Message, ack bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unacked--
	if !ack || b.random.IntN(5) == 0 { // the acknowledgement is lost: its consumer died
		b.waiting = append(b.waiting, m)
	}
}

func TestInbox_scriptedBroker(t *testing.T) {
	t.Parallel()
	const messages, consumers, attempts = 100, 8, 3
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			b := &broker{random: rand.New(rand.NewPCG(1, uint64(effect)))}
			for i := range messages {
				b.waiting = append(b.waiting, inbox.Message{Source: "orders", ID: fmt.Sprint(i), Payload: []byte{byte(i)}})
			}
			var mu sync.Mutex
			effects, tries, letters := make(map[byte]int), make(map[byte]int), make(map[byte]int)
			shared := memstore.New()
			commit := func(ctx context.Context, into map[byte]int, n byte) error {
				count := func() { mu.Lock(); into[n]++; mu.Unlock() }
				if effect == server.Transactional {
					return memstore.Tx(ctx).Do(count)
				}
				return store.OnComplete(ctx, func(ctx context.Context) error { return memstore.Tx(ctx).Do(count) })
			}
			handle := func(ctx context.Context, payload []byte) error {
				n := payload[0]
				mu.Lock()
				tries[n]++
				try := tries[n]
				mu.Unlock()
				if err := commit(ctx, effects, n); err != nil {
					return err
				}
				if n%10 == 0 || (n%3 == 0 && try < attempts) { // some always fail, some at first
					return errors.New("not now")
				}
				return nil
			}
			var wg sync.WaitGroup
			for range consumers {
				stock := newInbox(t, newGuard(t, shared, server.Config{}), inbox.Config{
					Consumer: "stock", Effect: effect, MaxAttempts: attempts,
					DeadLetter: func(ctx context.Context, m inbox.Message, _ error) error { return commit(ctx, letters, m.Payload[0]) },
				})
				wg.Go(func() {
					for m, more := b.next(); more; m, more = b.next() {
						if m.ID == "" {
							time.Sleep(time.Millisecond) // others hold what is left
							continue
						}
						delivery, err := stock.Handle(t.Context(), m, handle)
						if delivery.Result == inbox.Ran && err != nil {
							t.Errorf("ran, and %v", err)
						}
						b.done(m, delivery.Ack())
					}
				})
			}
			wg.Wait()
			for i := range messages {
				n := byte(i)
				wantEffects, wantLetters := 1, 0
				if n%10 == 0 {
					wantEffects, wantLetters = 0, 1
				}
				require.Equal(t, wantEffects, effects[n], "effects of message %d", n)
				require.Equal(t, wantLetters, letters[n], "dead letters of message %d", n)
				require.LessOrEqual(t, tries[n], attempts, "attempts of message %d", n)
			}
		})
	}
}
