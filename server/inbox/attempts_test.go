package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

var errNoStock = errors.New("no stock")

// A message is acknowledged only if its effects are committed or its letter is written, however its handler settles.
func TestInbox_settled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		how     []server.SettleOption
		fails   bool
		want    []inbox.Result // of the deliveries, until one is acknowledged
		rows    int            // of a Transactional handler
		letters int
	}{
		{"nothing", nil, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"an error", nil, true, []inbox.Result{inbox.Failed, inbox.Dead}, 0, 1},
		{"Release", []server.SettleOption{server.Release()}, false, []inbox.Result{inbox.Failed, inbox.Failed, inbox.Failed}, 0, 0},
		{"Release, an error", []server.SettleOption{server.Release()}, true, []inbox.Result{inbox.Failed, inbox.Failed, inbox.Failed}, 0, 0},
		{"Release and NotRetryable", []server.SettleOption{server.Release(), server.NotRetryable()}, false, []inbox.Result{inbox.Failed, inbox.Failed, inbox.Failed}, 0, 0},
		{"Final", []server.SettleOption{server.Final()}, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"Final, an error", []server.SettleOption{server.Final()}, true, []inbox.Result{inbox.Dead}, 0, 1},
		{"Final and KeepRows, an error", []server.SettleOption{server.Final(), server.KeepRows()}, true, []inbox.Result{inbox.Dead}, 1, 1},
		{"Final and Release", []server.SettleOption{server.Final(), server.Release()}, false, []inbox.Result{inbox.Failed, inbox.Failed, inbox.Failed}, 0, 0},
		{"KeepRows", []server.SettleOption{server.KeepRows()}, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"KeepRows, an error", []server.SettleOption{server.KeepRows()}, true, []inbox.Result{inbox.Failed, inbox.Dead}, 0, 1},
		{"Reference", []server.SettleOption{server.Reference("7")}, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"DeadLetter", []server.SettleOption{server.DeadLetter()}, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"NotRetryable", []server.SettleOption{server.NotRetryable()}, false, []inbox.Result{inbox.Ran}, 1, 0},
		{"NotRetryable, an error", []server.SettleOption{server.NotRetryable()}, true, []inbox.Result{inbox.Failed, inbox.Dead}, 0, 1},
	} {
		for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
			t.Run(fmt.Sprint(tt.name, ", ", effect), func(t *testing.T) {
				t.Parallel()
				rows, letters := 0, 0
				b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
					Consumer: "stock", Effect: effect, MaxAttempts: 2,
					DeadLetter: func(context.Context, inbox.Message, error) error { letters++; return nil },
				})
				handle := func(ctx context.Context, _ []byte) error {
					if effect == server.Transactional {
						require.NoError(t, memstore.Tx(ctx).Do(func() { rows++ }))
					}
					require.True(t, tt.how == nil || server.Settle(ctx, tt.how...) == nil)
					if tt.fails {
						return errNoStock
					}
					return nil
				}
				for i, want := range tt.want {
					d, err := b.Handle(t.Context(), message, handle)
					require.Equal(t, want, d.Result, "delivery %d: %v", i+1, err)
					require.Equal(t, want == inbox.Ran || want == inbox.Failed && !tt.fails, err == nil)
					require.Equal(t, d.Ack(), d.Pause == 0)
				}
				if effect == server.Transactional {
					require.Equal(t, tt.rows, rows)
				}
				require.Equal(t, tt.letters, letters)
				if last := tt.want[len(tt.want)-1]; last != inbox.Failed { // the acknowledgement was lost
					d, err := b.Handle(t.Context(), message, handle)
					require.NoError(t, err)
					require.Equal(t, map[inbox.Result]inbox.Result{inbox.Ran: inbox.Duplicate, inbox.Dead: inbox.Dead}[last], d.Result)
					require.Equal(t, tt.letters, letters)
				}
			})
		}
	}
}

// The letter's own function is held to the same: what it released is not written.
func TestInbox_releasedLetter(t *testing.T) {
	t.Parallel()
	for _, m := range []inbox.Message{message, {}} { // of spent attempts, and of a message without a name
		letters := 0
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
			Consumer: "stock", Effect: server.Transactional, MaxAttempts: 1,
			DeadLetter: func(ctx context.Context, _ inbox.Message, _ error) error {
				if letters++; letters < 3 {
					return server.Settle(ctx, server.Release())
				}
				return nil
			},
		})
		for _, want := range []inbox.Result{inbox.Failed, inbox.Failed, inbox.Dead, inbox.Dead} {
			d, _ := b.Handle(t.Context(), m, func(context.Context, []byte) error { return errNoStock })
			require.Equal(t, want, d.Result)
		}
		require.Equal(t, 3, letters)
	}
}

// What can never run is a dead letter at once, and the rules for callers' keys and bodies are not about messages.
func TestInbox_namesAndSizes(t *testing.T) {
	t.Parallel()
	uuids := func(k childkey.Key) error {
		if len(k.String()) != 36 {
			return errors.New("not a UUID")
		}
		return nil
	}
	for _, tt := range []struct {
		name string
		cfg  server.Config
		m    inbox.Message
		want inbox.Result
	}{
		{"a large payload", server.Config{MaxRequestBytes: 1 << 10}, inbox.Message{ID: "1", Payload: make([]byte, 2<<20)}, inbox.Ran},
		{"KeyPolicy", server.Config{KeyPolicy: uuids}, message, inbox.Ran},
		{"no ID", server.Config{}, inbox.Message{Source: "orders"}, inbox.Dead},
		{"a long ID", server.Config{KeyPolicy: uuids}, inbox.Message{ID: strings.Repeat("x", 257)}, inbox.Dead},
		{"a long source", server.Config{}, inbox.Message{Source: strings.Repeat("x", 257), ID: "1", Payload: make([]byte, 2<<20)}, inbox.Dead},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			letters := 0
			b := newInbox(t, newGuard(t, memstore.New(), tt.cfg), inbox.Config{
				Consumer: "stock", Effect: server.Keyed,
				DeadLetter: func(context.Context, inbox.Message, error) error { letters++; return nil },
			})
			for i := range 2 {
				d, err := b.Handle(t.Context(), tt.m, func(context.Context, []byte) error { return nil })
				require.True(t, d.Ack(), "%v: %v", d, err)
				if i == 0 {
					require.Equal(t, tt.want, d.Result)
				}
			}
			require.Equal(t, tt.want == inbox.Dead, letters == 1)
		})
	}
}

// An unreliable store has no transaction for some runs, or loses their COMMIT.
type unreliableStore struct {
	*memstore.Store
	begins, commits int // how many fail
}

func (s *unreliableStore) Begin(ctx context.Context) (store.Tx, error) {
	if s.begins > 0 {
		s.begins--
		return nil, errors.New("no connection is free")
	}
	tx, err := s.Store.Begin(ctx)
	return unreliableTx{tx, s}, err
}

type unreliableTx struct {
	store.Tx
	store *unreliableStore
}

func (tx unreliableTx) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if tx.store.commits > 0 {
		tx.store.commits--
		return errors.New("the server is gone")
	}
	return tx.Tx.Settle(ctx, o, end)
}

// Deliveries that the store or a shutdown ended are no attempts, however often a broker delivers meanwhile.
func TestInbox_outageIsNoAttempt(t *testing.T) {
	t.Parallel()
	s := &unreliableStore{Store: memstore.New(), begins: 20, commits: 20}
	b := newInbox(t, newGuard(t, s, server.Config{}), inbox.Config{
		Consumer: "stock", Effect: server.Transactional,
		DeadLetter: func(_ context.Context, _ inbox.Message, cause error) error { t.Error(cause); return nil },
	})
	for {
		d, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
		if d.Ack() {
			require.Equal(t, inbox.Delivery{Result: inbox.Ran, Attempt: 1}, d)
			return
		}
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.StoreUnavailable})
		require.Equal(t, inbox.Delivery{Pause: time.Second}, d)
	}
}

func TestInbox_shutdownIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		synctest.Test(t, func(t *testing.T) {
			shared := memstore.New()
			cfg := inbox.Config{Consumer: "stock", Effect: effect, MaxAttempts: 2}
			for range 5 {
				g := newGuard(t, shared, server.Config{SettleTimeout: time.Second})
				b := newInbox(t, g, cfg)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_ = g.Shutdown(ctx)
				}()
				d, err := b.Handle(t.Context(), message, func(ctx context.Context, _ []byte) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				require.ErrorIs(t, err, server.ErrShutdown)
				require.Equal(t, inbox.Failed, d.Result)
				synctest.Wait()
			}
			d, err := newInbox(t, newGuard(t, shared, server.Config{}), cfg).Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
			require.NoError(t, err)
			require.Equal(t, inbox.Delivery{Result: inbox.Ran, Attempt: 1}, d)
		})
	}
}

// The pause grows with the attempts, in whichever process they are made. Deaths count like failures.
func TestInbox_pauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		letters := 0
		cfg := inbox.Config{Consumer: "stock", Effect: server.Keyed, DeadLetter: func(context.Context, inbox.Message, error) error { letters++; return nil }}
		_, err := newInbox(t, newGuard(t, mute{shared}, server.Config{}), cfg).Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
		require.Error(t, err)
		time.Sleep(server.DefaultLease) // the first attempt died
		var pauses []time.Duration
		for n := 2; n <= 10; n++ {
			d, err := newInbox(t, newGuard(t, shared, server.Config{}), cfg).Handle(t.Context(), message, func(ctx context.Context, _ []byte) error {
				require.Equal(t, n, server.Attempt(ctx))
				return errNoStock
			})
			require.ErrorIs(t, err, errNoStock)
			require.Equal(t, n, d.Attempt)
			pauses = append(pauses, d.Pause)
		}
		require.Equal(t, []time.Duration{
			200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
			6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 0, // the letter was written at once
		}, pauses)
		require.Equal(t, 1, letters)
	})
}

// A DeadLetter panics, waits for another message, or asks the guard, be it the last run of its message or a run of its
// own. A panic passes on, and leaves the message for its next delivery.
func TestCallbacks_deadLetter(t *testing.T) {
	t.Parallel()
	nameless, another := inbox.Message{Payload: []byte("tea")}, inbox.Message{Source: "orders", ID: "another"}
	how := map[string]func(ctx context.Context, g *server.Guard, b *inbox.Inbox) error{
		"panics": func(context.Context, *server.Guard, *inbox.Inbox) error { panic("boom") },
		"is slow": func(ctx context.Context, _ *server.Guard, b *inbox.Inbox) error {
			handled := make(chan error, 1)
			go func() {
				_, err := b.Handle(context.WithoutCancel(ctx), another, func(context.Context, []byte) error { return nil })
				handled <- err
			}()
			select {
			case err := <-handled:
				return err
			case <-ctx.Done(): // after [server.Config].HandlerTimeout
				return context.Cause(ctx)
			}
		},
		"asks the guard": func(ctx context.Context, g *server.Guard, b *inbox.Inbox) error {
			_, err := b.Lookup(ctx, another)
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			_, failure := g.ListStuck(ctx, store.ListRequest{})
			return errors.Join(err, failure)
		},
	}
	for name, do := range how {
		for _, m := range []inbox.Message{message, nameless} {
			for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
				t.Run(fmt.Sprint(name, ", ", m.ID, ", ", effect), func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					letters := 0
					var b *inbox.Inbox
					g := newGuard(t, memstore.New(), server.Config{HandlerTimeout: 10 * time.Second})
					b = newInbox(t, g, inbox.Config{
						Consumer: "stock", Effect: effect, MaxAttempts: 1,
						DeadLetter: func(ctx context.Context, _ inbox.Message, _ error) error {
							if letters++; letters == 1 {
								return do(ctx, g, b)
							}
							return nil
						},
					})
					deliver := func() (inbox.Delivery, error) {
						return b.Handle(ctx, m, func(context.Context, []byte) error { return errNoStock })
					}
					if name == "panics" {
						require.PanicsWithValue(t, "boom", func() { _, _ = deliver() })
					}
					d, err := deliver()
					require.Equal(t, inbox.Dead, d.Result, "%v", err)
					d, err = deliver() // again, as if the acknowledgement was lost
					require.Equal(t, inbox.Dead, d.Result, "%v", err)
					require.Equal(t, map[bool]int{true: 2, false: 1}[name == "panics"], letters)
				})
			}
		}
	}
}

// The options of a StatusError settle the run of a message, as they settle that of a request.
func TestInbox_settledByTheError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		settle []server.SettleOption
		want   inbox.Result
	}{
		{nil, inbox.Failed},
		{[]server.SettleOption{server.Final()}, inbox.Dead},
		{[]server.SettleOption{server.Release()}, inbox.Failed},
	} {
		letters := 0
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
			Consumer: "mails", Effect: server.Transactional, MaxAttempts: 2,
			DeadLetter: func(context.Context, inbox.Message, error) error { letters++; return nil },
		})
		refused := &server.StatusError{Status: 409, Settle: tt.settle}
		d, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return refused })
		require.ErrorIs(t, err, refused)
		require.Equal(t, tt.want, d.Result)
		require.Equal(t, tt.want == inbox.Dead, letters == 1)
	}
	// An option that the class does not have is a failure that says so.
	b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{Consumer: "mails", Effect: server.Opaque})
	_, err := b.Handle(t.Context(), message, func(context.Context, []byte) error {
		return &server.StatusError{Status: 409, Settle: []server.SettleOption{server.KeepRows()}}
	})
	require.ErrorIs(t, err, store.ErrWrongEffect)
}

// A function that changes the payload in place finds the message's own when it runs again, and leaves the broker's alone.
func TestInbox_deadLetterChangesThePayload(t *testing.T) {
	t.Parallel()
	var seen []string
	runs := 0
	b := newInbox(t, newGuard(t, memstore.New(), server.Config{}), inbox.Config{
		Consumer: "mails", Effect: server.Transactional, MaxAttempts: 1,
		DeadLetter: func(ctx context.Context, m inbox.Message, _ error) error {
			seen = append(seen, string(m.Payload))
			clear(m.Payload)
			if runs++; runs == 1 {
				return memstore.Tx(ctx).Doom()
			}
			return nil
		},
	})
	m := inbox.Message{Source: "orders", ID: "0/43", Payload: []byte("tea")}
	d, _ := b.Handle(t.Context(), m, func(context.Context, []byte) error { return errDown })
	require.Equal(t, inbox.Dead, d.Result)
	require.Equal(t, []string{"tea", "tea"}, seen)
	require.Equal(t, "tea", string(m.Payload))
}

// What the database does to an attempt is its failure if it would do the same again. A message whose statement takes too
// long each time becomes a dead letter, and one that an outage met does not.
func TestInbox_transactionFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		failure error
		counts  bool
	}{
		{"refused", &store.TxError{SQLState: "23505"}, true},
		{"cut off", store.ErrTxAbandoned, true},
		{"conflict each time", store.ErrConflict, false},
		{"trouble", errDown, false},
	} {
		for _, noticed := range []bool{false, true} {
			b := newInbox(t, newGuard(t, memstore.New(), server.Config{MaxRecoveryAttempts: 99}), inbox.Config{
				Consumer: "stock", Effect: server.Transactional, MaxAttempts: 2,
			})
			for n := range 3 {
				d, err := b.Handle(t.Context(), message, func(ctx context.Context, _ []byte) error {
					require.NoError(t, memstore.Tx(ctx).Fail(tt.failure))
					if noticed {
						return errNoStock
					}
					return nil
				})
				require.Error(t, err)
				if tt.counts && n == 1 {
					require.Equal(t, inbox.Delivery{Result: inbox.Dead, Attempt: 2}, d, "%s: %v", tt.name, err)
					break
				}
				require.Equal(t, []any{inbox.Failed, tt.counts}, []any{d.Result, d.Attempt > 0}, "%s: %v", tt.name, err)
			}
		}
	}
}
