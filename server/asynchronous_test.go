package server_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A forgetful store answers a claim before it is durable, where it may. A crash forgets the claims of which it has
// taken no later write.
type forgetful struct {
	*flaky
	mu       sync.Mutex
	async    []bool // of each claim and take-over
	renewals int
}

func newForgetful() *forgetful {
	f := &forgetful{flaky: &flaky{TxStore: memstore.New()}}
	f.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
		f.note(req)
		r, won, err := f.TxStore.Claim(ctx, req)
		r.Asynchronous = won && req.Asynchronous
		return r, won, err
	}
	f.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
		f.note(req)
		return f.TxStore.TakeOver(ctx, req, from)
	}
	f.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
		f.mu.Lock()
		f.renewals++
		f.mu.Unlock()
		return f.TxStore.Renew(ctx, owners, lease)
	}
	return f
}

func (f *forgetful) note(req store.ClaimRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.async = append(f.async, req.Asynchronous)
}

// last reports whether the last claim was asynchronous.
func (f *forgetful) last(t *testing.T) bool {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(t, f.async)
	return f.async[len(f.async)-1]
}

func (f *forgetful) renewed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewals
}

// crash forgets every record.
func (f *forgetful) crash() { f.TxStore = memstore.New() }

// Begin implements [store.TxStore] with a transaction that does not survive a crash.
func (f *forgetful) Begin(ctx context.Context) (store.Tx, error) {
	tx, err := f.TxStore.Begin(ctx)
	return &forgettableTx{tx, f, f.TxStore}, err
}

// A forgettableTx is one whose first statement is its settlement.
type forgettableTx struct {
	store.Tx
	of    *forgetful
	begun store.TxStore
}

func (t *forgettableTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if t.of.TxStore == t.begun {
		return t.Tx.Settle(ctx, o, s)
	}
	tx, err := t.of.TxStore.Begin(ctx)
	if err != nil {
		return err
	}
	return tx.Settle(ctx, o, s)
}

// Only a first claim of a Transactional route may be asynchronous. A retry says that an earlier attempt failed: perhaps
// that crashed the server.
func TestAsynchronousClaim_which(t *testing.T) {
	t.Parallel()
	retried := []string{wire.HeaderRetryAttempt, "2"}
	old := []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now().Add(-time.Minute))}
	for _, tt := range []struct {
		name    string
		effect  server.Effect
		headers []string
		want    bool
	}{
		{"Transactional", server.Transactional, nil, true},
		{"Transactional, a retry by its number", server.Transactional, retried, false},
		{"Transactional, a retry by its age", server.Transactional, old, false},
		{"Keyed", server.Keyed, nil, false},
		{"Opaque", server.Opaque, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newForgetful()
			h := newRoute(t, newGuard(t, s, server.Config{}), tt.effect, func(http.ResponseWriter, *http.Request) {})
			require.Equal(t, http.StatusOK, send(h, "k", "b", tt.headers...).Code)
			require.Equal(t, tt.want, s.last(t))
		})
	}
}

// A take-over is never asynchronous.
func TestAsynchronousClaim_takeOver(t *testing.T) {
	t.Parallel()
	s, status := newForgetful(), http.StatusInternalServerError
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	})
	send(h, "failed", "b")
	status = http.StatusOK
	send(h, "failed", "b") // its claim finds a released key
	require.Equal(t, []bool{true, true, false}, s.async)
}

// An inbox counts attempts by the fence.
func TestAsynchronousClaim_inbox(t *testing.T) {
	t.Parallel()
	s := newForgetful()
	b := newInbox(t, newGuard(t, s, server.Config{}), inbox.Config{Consumer: "billing", Effect: server.Transactional})
	for _, id := range []string{"1", "2", "3"} {
		_, err := b.Handle(t.Context(), inbox.Message{ID: id}, func(context.Context, []byte) error { return nil })
		require.NoError(t, err)
	}
	require.Equal(t, []bool{false, false, false}, s.async)
}

// An inbox of another author is one by its namespace.
func TestAsynchronousClaim_inboxOfAnother(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]bool{"inbox/billing": false, "": true} {
		s := newForgetful()
		g := newGuard(t, s, server.Config{})
		task := server.Task{Name: "handle", Scope: "s", Namespace: namespace, Effect: server.Transactional}
		_, _, err := server.Do(t.Context(), g, task, key(t, "1"), 0, func(context.Context, int) (int, error) { return 0, nil })
		require.NoError(t, err)
		require.Equal(t, []bool{want}, s.async)
	}
}

// A claim whose answer was lost is asked for again, and then it must be durable.
func TestAsynchronousClaim_fateUnknown(t *testing.T) {
	t.Parallel()
	s := newForgetful()
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(http.ResponseWriter, *http.Request) {})
	claim := s.claim
	s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
		s.claim = claim
		s.note(req)
		return store.Record{}, false, store.ErrFateUnknown
	}
	require.Equal(t, http.StatusOK, send(h, "k", "b").Code)
	require.Equal(t, []bool{true, false}, s.async)
}

// handOuts are the ways in which a run tells others about its claim.
var handOuts = []struct {
	name string
	out  func(context.Context) bool // reports whether something left
}{
	{"Fence", func(ctx context.Context) bool { return server.Fence(ctx) != 0 }},
	{"First-Sent", func(ctx context.Context) bool {
		in, _ := wire.FromContext(ctx)
		return !in.FirstSent.IsZero() || !in.Rerun
	}},
}

// A run hands its fence or First-Sent out once its claim is durable: it renews its lease first, once.
func TestAsynchronousClaim_handsOutOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	for _, tt := range handOuts {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newForgetful()
			h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
				before := s.renewed()
				require.True(t, tt.out(r.Context()))
				require.True(t, tt.out(r.Context()))
				require.Equal(t, s.last(t), s.renewed() == before+1, "a renewal, where the claim was not durable")
			})
			require.Equal(t, http.StatusOK, send(h, "k", "b").Code)
			require.True(t, s.last(t))
			require.Equal(t, http.StatusOK, send(h, "retry", "b", wire.HeaderRetryAttempt, "2").Code)
			require.False(t, s.last(t))
		})
	}
}

// A claim that is lost hands nothing out, and its run is told so.
func TestAsynchronousClaim_lost(t *testing.T) {
	t.Parallel()
	for _, tt := range handOuts {
		for _, trouble := range []error{nil, errDown} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, crash := newForgetful(), true
					var cause error
					renew := s.renew
					h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
						if !crash {
							return
						}
						s.crash()
						s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
							got, err := renew(ctx, owners, lease)
							if trouble != nil {
								return store.Renewal{}, trouble
							}
							return got, err
						}
						require.False(t, tt.out(r.Context()))
						cause = context.Cause(r.Context())
					})
					requireCode(t, send(h, "k", "b"), wire.LeaseLost)
					require.ErrorIs(t, cause, server.ErrLeaseLost)
					crash, s.renew = false, renew
					require.Equal(t, http.StatusOK, send(h, "k", "b").Code)
				})
			})
		}
	}
}

// A renewal is a durable write behind the claim, so a run that was renewed does not wait.
func TestAsynchronousClaim_renewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newForgetful()
		h := newRoute(t, newGuard(t, s, server.Config{Lease: time.Second}), server.Transactional, func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			before := s.renewed()
			require.EqualValues(t, 1, server.Fence(r.Context()))
			require.Equal(t, before, s.renewed())
		})
		require.Equal(t, http.StatusOK, send(h, "k", "b").Code)
		require.True(t, s.last(t))
	})
}

// The settlement of a claim that is lost finds nothing, whatever the handler answers.
func TestAsynchronousClaim_lostBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(http.ResponseWriter, *http.Request){
		"answer":  func(http.ResponseWriter, *http.Request) {},
		"refusal": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) },
		"refusal that keeps its rows": func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, server.Settle(r.Context(), server.KeepRows()))
			w.WriteHeader(http.StatusConflict)
		},
		"5xx": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"release": func(_ http.ResponseWriter, r *http.Request) {
			require.NoError(t, server.Settle(r.Context(), server.Release()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newForgetful()
			h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
				s.crash()
				end(w, r)
			})
			requireCode(t, send(h, "k", "b"), wire.LeaseLost)
			_, err := s.Read(t.Context(), store.NewID("unscoped", "", key(t, "k")))
			require.ErrorIs(t, err, store.ErrNotFound)
		})
	}
}
