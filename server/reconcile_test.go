package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A bank holds the effects of an opaque route. The reconciler of the route asks it.
type bank struct {
	mu    sync.Mutex
	asked []store.Record
	says  func(store.Record) (server.Resolution, error)
}

func (b *bank) reconcile(_ context.Context, c store.Record) (server.Resolution, error) {
	b.mu.Lock()
	b.asked = append(b.asked, c)
	b.mu.Unlock()
	return b.says(c)
}

func (b *bank) calls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

func saying(j server.Resolution, err error) *bank {
	return &bank{says: func(store.Record) (server.Resolution, error) { return j, err }}
}

// charges is an opaque route that asks the bank; its first run answers 500.
func charges(tb testing.TB, s store.Store, b *bank, cfg server.Config) (*server.Guard, http.Handler, *atomic.Int64) {
	tb.Helper()
	runs := new(atomic.Int64)
	g := newGuard(tb, s, cfg)
	h, err := g.Route(server.Route{
		Effect: server.Opaque, Name: "charges", Reconcile: b.reconcile,
	}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if runs.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	require.NoError(tb, err)
	return g, h, runs
}

func TestReconcile_byTheNextCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bank  *bank
		check func(*testing.T, http.Handler)
		runs  int64
		asked int
	}{
		{"happened", saying(server.Happened(server.Response{Status: http.StatusCreated, Body: []byte("7")}), nil), func(t *testing.T, h http.Handler) {
			requireAnswer(t, send(h, "k", "b"), http.StatusCreated, "7", true)
		}, 1, 1},
		{"never happened", saying(server.NeverHappened(), nil), func(t *testing.T, h http.Handler) {
			requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
		}, 2, 1},
		{"abandoned", saying(server.Abandoned(), nil), func(t *testing.T, h http.Handler) {
			requireCode(t, send(h, "k", "b"), wire.KeyCancelled)
		}, 1, 1},
		{"still unknown", saying(server.StillUnknown(), nil), func(t *testing.T, h http.Handler) {
			for range 3 {
				requireUndecided(t, send(h, "k", "b"), server.DefaultHandlerTimeout)
			}
		}, 1, 1},
		{"error", saying(server.NeverHappened(), errors.New("the bank is closed")), func(t *testing.T, h http.Handler) {
			requireUndecided(t, send(h, "k", "b"), server.DefaultHandlerTimeout)
		}, 1, 1},
		{"panic", &bank{says: func(store.Record) (server.Resolution, error) { panic("nil map") }}, func(t *testing.T, h http.Handler) {
			requireUndecided(t, send(h, "k", "b"), server.DefaultHandlerTimeout)
		}, 1, 1},
		{"another request is not asked about", saying(server.NeverHappened(), nil), func(t *testing.T, h http.Handler) {
			requireCode(t, send(h, "k", "other"), wire.KeyReused)
		}, 1, 0},
		{"an answer that cannot be stored", saying(server.Happened(server.Response{Status: 42}), nil), func(t *testing.T, h http.Handler) {
			requireUndecided(t, send(h, "k", "b"), server.DefaultHandlerTimeout)
		}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, h, runs := charges(t, memstore.New(), tt.bank, server.Config{})
			require.Equal(t, http.StatusInternalServerError, send(h, "k", "b").Code)
			tt.check(t, h)
			require.Equal(t, tt.runs, runs.Load())
			require.Equal(t, tt.asked, tt.bank.calls())
		})
	}
}

// requireUndecided checks the outcome-unknown of a key. The route's Reconcile is asked about that key again at the
// time that the answer names.
func requireUndecided(tb testing.TB, w *httptest.ResponseRecorder, next time.Duration) {
	tb.Helper()
	p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
	require.True(tb, ok, "answer %d %q", w.Code, w.Body)
	require.Equal(tb, wire.OutcomeUnknown, p.Code)
	require.Equal(tb, http.StatusLocked, w.Code)
	require.True(tb, p.Retryable)
	require.Equal(tb, "true", w.Header().Get(wire.HeaderShouldRetry))
	require.Equal(tb, "true", w.Header().Get(wire.HeaderXShouldRetry))
	after, ok := wire.RetryAfter(w.Header(), time.Now())
	require.True(tb, ok, "Retry-After")
	require.InDelta(tb, next, after, float64(time.Second))
}

// The sweep asks about keys without further calls, also about dead runs. After
// each question a key rests for a time equal to its age, at most an hour.
func TestReconcile_bySweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		b := saying(server.StillUnknown(), nil)
		seen := new(witness)
		g, h, _ := charges(t, shared, b, server.Config{Observer: seen})
		s := deaf(shared)
		s.settle = func(context.Context, store.Owner, store.Settlement) error { return errDown }
		_, dying, _ := charges(t, s, b, server.Config{})
		require.Equal(t, http.StatusInternalServerError, send(dying, "dead", "b").Code)
		time.Sleep(server.DefaultLease)
		send(h, "failed", "b")

		sweep := func() {
			_, err := g.Sweep(t.Context())
			require.NoError(t, err)
		}
		sweep()
		require.Equal(t, 2, b.calls())
		memos := map[string]bool{}
		for _, c := range b.asked {
			memos[string(c.Memo)] = true
			require.Equal(t, "charges", c.Route)
		}
		require.Equal(t, map[string]bool{hopKey(t, "unscoped", "", "dead").String(): true, hopKey(t, "unscoped", "", "failed").String(): true}, memos)
		sweep()
		require.Equal(t, 2, b.calls(), "not again at once")
		time.Sleep(server.DefaultHandlerTimeout)
		sweep()
		require.Equal(t, 4, b.calls())
		time.Sleep(24 * time.Hour)
		sweep()
		time.Sleep(59 * time.Minute)
		sweep()
		require.Equal(t, 6, b.calls(), "an old matter rests for an hour")
		b.says = func(store.Record) (server.Resolution, error) { return server.Abandoned(), nil }
		time.Sleep(time.Minute)
		n, err := g.Reconcile(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, 2, seen.count(server.EventResolved))
		log, err := shared.Reader().AuditPage(t.Context(), store.AuditRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, log, 2)
		require.Equal(t, store.Audit{Verb: store.VerbResolve, Actor: "reconciler", Reason: "charges: abandoned"}, log[0].Audit)
	})
}

// A pass is bounded, and the next one goes on: no key is asked about twice while
// others wait.
func TestReconcile_pages(t *testing.T) {
	t.Parallel()
	b := saying(server.StillUnknown(), nil)
	s := memstore.New()
	g := newGuard(t, s, server.Config{})
	h, err := g.Route(server.Route{Effect: server.Opaque, Name: "charges", Reconcile: b.reconcile},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	require.NoError(t, err)
	for n := range 1500 {
		send(h, fmt.Sprint("k-", n), "b")
	}
	for _, want := range []int{1000, 1500, 1500} {
		_, err := g.Reconcile(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, b.calls())
	}
}

// A service that does not answer uses only its own time in each call. The same
// call also asks about the runs of other routes.
func TestReconcile_slowRoute(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"", "shop"} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, memstore.New(), server.Config{Namespace: namespace})
			var slow, fast atomic.Int64
			fail := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			for _, route := range []server.Route{
				{Name: "slow", Reconcile: func(ctx context.Context, _ store.Record) (server.Resolution, error) {
					slow.Add(1)
					<-ctx.Done()
					return server.Resolution{}, ctx.Err()
				}},
				{Name: "fast", Reconcile: func(context.Context, store.Record) (server.Resolution, error) {
					fast.Add(1)
					return server.NeverHappened(), nil
				}},
			} {
				route.Effect = server.Opaque
				h, err := g.Route(route, fail)
				require.NoError(t, err)
				for i := range 10 {
					send(h, fmt.Sprint(route.Name, i), "b")
				}
			}
			start := time.Now()
			resolved, err := g.Reconcile(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 10, resolved)
			require.EqualValues(t, 10, fast.Load())
			require.Equal(t, server.DefaultHandlerTimeout, time.Since(start))
			_, err = g.Reconcile(t.Context())
			require.Error(t, err)
			require.EqualValues(t, 2, slow.Load(), "the second call asks about another run")
		})
	}
}

// The same holds for a store that does not answer.
func TestReconcile_deadStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &blackHole{TxStore: memstore.New()}
		_, h, runs := charges(t, s, saying(server.NeverHappened(), nil), server.Config{})
		for i := range 100 {
			runs.Store(0)
			send(h, fmt.Sprint(i), "b")
		}
		g, _, _ := charges(t, s, saying(server.NeverHappened(), nil), server.Config{})
		s.swallow("Defer")
		start := time.Now()
		_, err := g.Reconcile(t.Context())
		require.Error(t, err)
		require.Equal(t, server.DefaultHandlerTimeout, time.Since(start))
	})
}

// If many processes and requests meet, one of them asks, and one verdict is applied.
func TestReconcile_race(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	b := saying(server.NeverHappened(), nil)
	guards := make([]*server.Guard, 4)
	handlers := make([]http.Handler, 4)
	var runs atomic.Int64
	for i := range guards {
		guards[i] = newGuard(t, s, server.Config{})
		var err error
		handlers[i], err = guards[i].Route(server.Route{Effect: server.Opaque, Name: "charges", Reconcile: b.reconcile},
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if runs.Add(1) == 1 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}))
		require.NoError(t, err)
	}
	send(handlers[0], "k", "b")
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			if i%2 == 0 {
				_, err := guards[i%4].Reconcile(t.Context())
				if err != nil {
					t.Error(err)
				}
				return
			}
			send(handlers[i%4], "k", "b")
		})
	}
	wg.Wait()
	send(handlers[0], "k", "b")
	require.Equal(t, 1, b.calls())
	require.EqualValues(t, 2, runs.Load())
}

// A key whose every run dies is quarantined, although its reconciler would let
// it run each time. Both the next call and the sweep quarantine it. A person
// can release it.
func TestReconcile_quarantine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		look func(*testing.T, *server.Guard, http.Handler)
	}{
		{"the next call", func(t *testing.T, _ *server.Guard, h http.Handler) { requireCode(t, send(h, "k", "b"), wire.Poisoned) }},
		{"the sweep", func(t *testing.T, g *server.Guard, _ http.Handler) {
			_, err := g.Sweep(t.Context())
			require.NoError(t, err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New()
				b := saying(server.NeverHappened(), nil)
				dying := deaf(shared)
				dying.settle = func(context.Context, store.Owner, store.Settlement) error { return errDown }
				seen := new(witness)
				g, h, runs := charges(t, shared, b, server.Config{MaxRecoveryAttempts: 2, Observer: seen})
				for range 3 { // the first owner, and two that took over
					_, deadly, _ := charges(t, dying, b, server.Config{MaxRecoveryAttempts: 2}) // in a process of its own
					send(deadly, "k", "b")
					time.Sleep(server.DefaultLease)
				}
				require.Equal(t, 2, b.calls())
				tt.look(t, g, h)
				require.Equal(t, 2, b.calls(), "it had its chances")
				require.Equal(t, 1, seen.count(server.EventQuarantined))
				requireCode(t, send(h, "k", "b"), wire.Poisoned)
				require.Zero(t, runs.Load())

				stuck, err := g.ListStuck(t.Context(), store.ListRequest{Route: "charges"})
				require.NoError(t, err)
				require.Len(t, stuck, 1)
				require.Equal(t, 3, stuck[0].RecoveryAttempts)
				require.Equal(t, hopKey(t, "unscoped", "", "k").String(), string(stuck[0].Memo))
				require.NoError(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, server.NeverHappened(), ann))
				send(h, "k", "b")
				require.EqualValues(t, 1, runs.Load())
			})
		})
	}
}

func TestReconcile_rejects(t *testing.T) {
	t.Parallel()
	b := saying(server.StillUnknown(), nil)
	g := newGuard(t, memstore.New(), server.Config{})
	for _, tt := range []struct {
		name  string
		route server.Route
		field string
	}{
		{"keyed", server.Route{Effect: server.Keyed, Name: "r", Reconcile: b.reconcile}, "Route.Reconcile"},
		{"memo of a keyed route", server.Route{Effect: server.Keyed, Memo: hopMemo}, "Route.Reconcile"},
		{"no name", server.Route{Effect: server.Opaque, Reconcile: b.reconcile}, "Route.Reconcile"},
		{"", server.Route{Effect: server.Opaque, Name: "r", Reconcile: b.reconcile}, ""},
		{"name taken", server.Route{Effect: server.Opaque, Name: "r", Memo: hopMemo, Reconcile: b.reconcile}, "Route.Name"},
	} {
		_, err := g.Route(tt.route, http.NotFoundHandler())
		if tt.field == "" {
			require.NoError(t, err)
			continue
		}
		var rejected *server.ConfigError
		require.ErrorAs(t, err, &rejected, tt.name)
		require.Equal(t, tt.field, rejected.Field, tt.name)
	}
}

func TestMemo_refusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		memo func(*http.Request, []byte) ([]byte, error)
	}{
		{"error", func(*http.Request, []byte) ([]byte, error) { return nil, errors.New("secret") }},
		{"too long", func(*http.Request, []byte) ([]byte, error) { return make([]byte, server.MaxMemoBytes+1), nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &flaky{TxStore: memstore.New()}
			h, err := newGuard(t, s, server.Config{}).Route(server.Route{Effect: server.Opaque, Memo: tt.memo}, http.NotFoundHandler())
			require.NoError(t, err)
			w := send(h, "k", "b")
			requireCode(t, w, wire.KeyInvalid)
			require.NotContains(t, w.Body.String(), "secret")
			require.Zero(t, s.asked.Load())
		})
	}
}

// hopMemo is a Route.Memo: the text of the parent key that the request's ctx carries.
func hopMemo(r *http.Request, _ []byte) ([]byte, error) {
	key, _ := childkey.FromContext(r.Context())
	return []byte(key.String()), nil
}

// A duplicate waits for the question to a reconciler as for a run: as long as it may wait, and in one of the places.
func TestReconcile_duplicatesWaitAsForARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		g := newGuard(t, memstore.New(), server.Config{MaxWaiters: 1})
		h, err := g.Route(server.Route{Name: "charge", Effect: server.Opaque, Reconcile: func(ctx context.Context, _ store.Record) (server.Resolution, error) {
			select {
			case <-answer:
				return server.StillUnknown(), nil
			case <-ctx.Done(): // the bank does not answer
				return server.StillUnknown(), ctx.Err()
			}
		}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		require.NoError(t, err)
		send(h, "k", "{}") // unknown
		var wg sync.WaitGroup
		wg.Go(func() { send(h, "k", "{}") }) // asks the bank
		synctest.Wait()

		began := time.Now()
		requireCode(t, send(h, "k", "{}", wait(0)...), wire.InProgress)
		requireCode(t, send(h, "k", "other"), wire.KeyReused)
		require.Zero(t, time.Since(began))
		wg.Go(func() { requireCode(t, send(h, "k", "{}"), wire.InProgress) }) // has the one place
		synctest.Wait()
		requireCode(t, send(h, "k", "{}"), wire.InProgress)
		require.Zero(t, time.Since(began))
		time.Sleep(server.DefaultWait)
		synctest.Wait()

		wg.Go(func() { require.Equal(t, http.StatusLocked, send(h, "k", "{}").Code) })
		synctest.Wait()
		close(answer)
		wg.Wait()
	})
}
