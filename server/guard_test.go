package server_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestNewGuard_rejects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field string
		cfg   server.Config
	}{
		{"Config.Lease", server.Config{Lease: -1}},
		{"Config.Lease", server.Config{Lease: time.Millisecond}},
		{"Config.Lease", server.Config{Lease: 25 * time.Hour}},
		{"Config.Retention", server.Config{Retention: time.Second}},
		{"Config.AuditRetention", server.Config{AuditRetention: time.Hour}},
		{"Config.Retention", server.Config{Retention: server.MaxRetention + 1}},
		{"Config.AuditRetention", server.Config{AuditRetention: server.MaxRetention + 1}},
		{"Config.HandlerTimeout", server.Config{HandlerTimeout: server.MaxRetention + 1}},
		{"Config.Skew", server.Config{Skew: 8 * 24 * time.Hour}},
		{"Config.HandlerTimeout", server.Config{HandlerTimeout: -1}},
		{"Config.StoreTimeout", server.Config{StoreTimeout: -1}},
		{"Config.SettleTimeout", server.Config{SettleTimeout: -1}},
		{"Config.MaxRequestBytes", server.Config{MaxRequestBytes: -1}},
		{"Config.MaxResponseBytes", server.Config{MaxResponseBytes: -1}},
		{"Config.BodyTimeout", server.Config{BodyTimeout: -1}},
		{"Config.MaxBufferedBytes", server.Config{MaxBufferedBytes: -1}},
		{"Config.MaxBufferedBytes", server.Config{MaxBufferedBytes: 99, MaxRequestBytes: 100}},
		{"Config.MaxBufferedBytes", server.Config{MaxBufferedBytes: server.DefaultMaxRequestBytes - 1}},
		{"Config.MaxWaiters", server.Config{MaxWaiters: -1}},
		{"Config.MaxRecoveryAttempts", server.Config{MaxRecoveryAttempts: -1}},
		{"Config.SweepBatch", server.Config{SweepBatch: -1}},
		{"Config.SweepInterval", server.Config{SweepInterval: -1}},
		{"Config.Namespace", server.Config{Namespace: "two words"}},
		{"Config.Namespace", server.Config{Namespace: "a:b"}},
		{"Config.Namespace", server.Config{Namespace: strings.Repeat("n", childkey.MaxNameBytes+1)}},
		{"Config.Namespace", server.Config{Namespace: "saga/checkout"}},
		{"Config.Namespace", server.Config{Namespace: "inbox/mailer"}},
		{"Config.Methods", server.Config{Methods: []string{"post"}}},
		{"Config.ReplayHeaders", server.Config{ReplayHeaders: []string{"set-cookie"}}},
		{"Config.ReplayHeaders", server.Config{ReplayHeaders: []string{"bad name"}}},
	} {
		_, err := server.NewGuard(memstore.New(), server.Unscoped, tt.cfg)
		requireField(t, err, tt.field)
	}
	_, err := server.NewGuard(nil, server.Unscoped, server.Config{})
	requireField(t, err, "store")
	var failed *memstore.Store // as of an Open whose error was overlooked
	_, err = server.NewGuard(failed, server.Unscoped, server.Config{})
	requireField(t, err, "store")
	for _, cfg := range []server.Config{
		{Retention: server.MaxRetention},
		{Wait: -1},
		{Wait: time.Minute},
		{MaxRequestBytes: 1 << 40}, // the default of MaxBufferedBytes follows it
		{MaxResponseBytes: 1 << 40},
		{MaxResponseBytes: math.MaxInt64},
	} {
		_, err = server.NewGuard(memstore.New(), server.Unscoped, cfg)
		require.NoError(t, err)
	}
	_, err = server.NewGuard(memstore.New(), nil, server.Config{})
	requireField(t, err, "scope")
	for _, namespace := range []string{"", "payments", "shop.v1/payments", "saga", "sagas/x", "inboxes", strings.Repeat("n", childkey.MaxNameBytes)} {
		_, err = server.NewGuard(memstore.New(), server.Unscoped, server.Config{Namespace: namespace})
		require.NoError(t, err, "%q", namespace)
	}
}

func requireField(tb testing.TB, err error, field string) {
	tb.Helper()
	var config *server.ConfigError
	require.ErrorAs(tb, err, &config)
	require.Equal(tb, field, config.Field, err)
	require.True(tb, strings.HasPrefix(err.Error(), "server: "), err)
}

func onCommitError(context.Context, *store.TxError) (server.Response, error) {
	return server.Response{Status: http.StatusConflict}, nil
}

func TestRoute_rejects(t *testing.T) {
	t.Parallel()
	next := http.NotFoundHandler()
	for _, tt := range []struct {
		field string
		store store.Store
		route server.Route
	}{
		{"Route.Effect", memstore.New(), server.Route{}},
		{"Route.Effect", memstore.New(), server.Route{Effect: 9}},
		{"Route.Effect", plainStore{memstore.New()}, server.Route{Effect: server.Transactional}},
		{"Route.HandlerTimeout", memstore.New(), server.Route{Effect: server.Keyed, HandlerTimeout: -1}},
		{"Route.HandlerTimeout", memstore.New(), server.Route{Effect: server.Keyed, HandlerTimeout: server.MaxRetention + 1}},
		{"Route.OnCommitError", memstore.New(), server.Route{Effect: server.Keyed, OnCommitError: onCommitError}},
		{"Route.OnCommitError", memstore.New(), server.Route{Effect: server.Opaque, OnCommitError: onCommitError}},
		{"Route.Stream", memstore.New(), server.Route{Effect: server.Transactional, Stream: server.StreamTombstone}},
		{"Route.Stream", memstore.New(), server.Route{Effect: server.Keyed, Stream: 9}},
		{"Route.Wait", memstore.New(), server.Route{Effect: server.Keyed, Wait: time.Minute}},
		{"Route.Name", memstore.New(), server.Route{Effect: server.Opaque, Name: "a\x00b"}},
		{"Route.Name", memstore.New(), server.Route{Effect: server.Opaque, Name: "\xff"}},
		{"Route.Name", memstore.New(), server.Route{Effect: server.Opaque, Name: strings.Repeat("n", server.MaxNameBytes+1)}},
	} {
		_, err := newGuard(t, tt.store, server.Config{}).Route(tt.route, next)
		requireField(t, err, tt.field)
	}
	_, err := newGuard(t, memstore.New(), server.Config{}).Handler(server.Keyed, nil)
	requireField(t, err, "next")
	longest := server.Route{Effect: server.Opaque, Name: strings.Repeat("ä", server.MaxNameBytes/2)}
	_, err = newGuard(t, memstore.New(), server.Config{}).Route(longest, next)
	require.NoError(t, err)
}

func TestNewGuard_copiesItsConfig(t *testing.T) {
	t.Parallel()
	cfg := server.Config{Methods: []string{http.MethodPost}}
	var runs atomic.Int64
	h := newRoute(t, newGuard(t, memstore.New(), cfg), server.Keyed, answer(http.StatusOK, &runs))
	cfg.Methods[0] = http.MethodPut
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, false)
}

func TestShutdown_waitsForRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		g := newGuard(t, memstore.New(), server.Config{})
		h := newRoute(t, g, server.Keyed, slow(5*time.Second, &runs))
		first, waiter := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- send(h, "k", "b") }()
		synctest.Wait()
		go func() { waiter <- send(h, "k", "b", wait(10)...) }()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, g.Shutdown(t.Context()))
		require.Equal(t, 5*time.Second, time.Since(start))
		requireAnswer(t, <-first, http.StatusOK, "1", false)
		requireCode(t, <-waiter, wire.StoreUnavailable)
		requireCode(t, send(h, "k-2", "b"), wire.NotClaimed)
		require.NoError(t, g.Shutdown(t.Context()))
		require.EqualValues(t, 1, runs.Load())
	})
}

// Shutdown cancels a run that takes too long, and waits until its outcome is recorded.
func TestShutdown_cancelsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, tt := range []struct {
			name               string
			timeout, cancelled time.Duration // of Shutdown; after which the run is cancelled
		}{
			{"in time", 25 * time.Second, 15 * time.Second},
			{"with no more time than it takes", server.DefaultSettleTimeout, 0},
			{"with little time", 4 * time.Second, 0},
		} {
			t.Run(fmt.Sprint(effect, " ", tt.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					under, seen := &flaky{TxStore: memstore.New()}, &witness{}
					under.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
						time.Sleep(time.Second)
						return under.TxStore.Settle(ctx, o, s)
					}
					g := newGuard(t, under, server.Config{Observer: seen})
					start := time.Now()
					h := newRoute(t, g, effect, func(w http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
						assert.Equal(t, tt.cancelled, time.Since(start))
						assert.ErrorIs(t, context.Cause(r.Context()), server.ErrShutdown)
						time.Sleep(2 * time.Second) // it stops as soon as it can: its work is done
						w.WriteHeader(http.StatusCreated)
					})
					go func() { assert.Equal(t, http.StatusCreated, send(h, "k", "b").Code) }()
					synctest.Wait()
					ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
					defer cancel()
					require.NoError(t, g.Shutdown(ctx))
					require.Less(t, time.Since(start), tt.timeout)
					require.Equal(t, server.StateCompleted, readRecord(t, under, seen).State)
				})
			})
		}
	}
}

// If a handler does not stop, Shutdown reports it, and a second Shutdown waits for the handler.
func TestShutdown_handlerDoesNotStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &witness{}
		s := memstore.New()
		g := newGuard(t, s, server.Config{Observer: seen})
		h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(50 * time.Second)
			assert.ErrorIs(t, context.Cause(r.Context()), server.ErrShutdown)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		start := time.Now()
		go send(h, "k", "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := g.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 runs still going")
		require.Equal(t, 20*time.Second, time.Since(start))
		require.NoError(t, g.Shutdown(t.Context()))
		require.Equal(t, 50*time.Second, time.Since(start))
		require.Equal(t, server.StateReleased, readRecord(t, s, seen).State)
	})
}

// Without a deadline only the caller decides when to cancel, by ending ctx.
func TestShutdown_withoutDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{})
		h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), server.ErrShutdown)
		})
		start := time.Now()
		go send(h, "k", "b")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(12*time.Second, cancel)
		require.ErrorIs(t, g.Shutdown(ctx), context.Canceled)
		require.NoError(t, g.Shutdown(t.Context()))
		require.Equal(t, 12*time.Second, time.Since(start))
	})
}

// A run that has its whole HandlerTimeout is not cancelled by Shutdown.
func TestShutdown_longEnoughForEveryRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{HandlerTimeout: 15 * time.Second})
		h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), server.ErrHandlerTimeout)
		})
		go send(h, "k", "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second+server.DefaultSettleTimeout+time.Nanosecond)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
}

// A route's own deadline replaces the guard's, whether it is shorter or longer.
func TestRoute_handlerTimeout(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{time.Second, time.Hour} {
		for name, route := range map[string]server.Route{
			"keyed": {Effect: server.Keyed}, "transactional": {Effect: server.Transactional}, "keyless": {Effect: server.Transactional, KeyOptional: true},
		} {
			t.Run(fmt.Sprint(name, " ", timeout), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					route.HandlerTimeout = timeout
					h, err := newGuard(t, memstore.New(), server.Config{}).Route(route, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						in, _ := wire.FromContext(r.Context())
						assert.False(t, in.Deadline.After(time.Now().Add(timeout)), "calls of the handler have no longer deadline")
						<-r.Context().Done()
						assert.ErrorIs(t, context.Cause(r.Context()), server.ErrHandlerTimeout)
					}))
					require.NoError(t, err)
					began, key := time.Now(), "k"
					if route.KeyOptional {
						key = ""
					}
					send(h, key, "b", wire.HeaderRequestTimeout, "7200000")
					require.Equal(t, timeout, time.Since(began))
				})
			})
		}
	}
}

// A request that asks a Reconcile does not delay a stop: the reconciler is asked again later.
func TestShutdown_endsReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, seen := memstore.New(), &witness{}
		g := newGuard(t, s, server.Config{Observer: seen})
		h, err := g.Route(server.Route{
			Effect: server.Opaque, Name: "n",
			Reconcile: func(ctx context.Context, _ store.Record) (server.Resolution, error) {
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), server.ErrShutdown)
				return server.Resolution{}, ctx.Err()
			},
		}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		require.NoError(t, err)
		send(h, "k", "b")
		go func() { assert.Equal(t, http.StatusLocked, send(h, "k", "b").Code) }()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, g.Shutdown(t.Context()))
		require.Zero(t, time.Since(start))
		require.Equal(t, server.StateUnknown, readRecord(t, s, seen).State)
	})
}

// A renewal that is running uses the store, which its owner closes after Shutdown.
func TestShutdown_waitsForRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		calls := 0
		s.renew = func(_ context.Context, owners []store.Owner, _ time.Duration) (store.Renewal, error) {
			calls++
			time.Sleep(4 * time.Second)
			return store.Renewal{Renewed: owners}, nil
		}
		var runs atomic.Int64
		g := newGuard(t, s, server.Config{})
		h := newRoute(t, g, server.Keyed, slow(11*time.Second, &runs))
		start := time.Now()
		go send(h, "k", "b")
		synctest.Wait()
		require.NoError(t, g.Shutdown(t.Context()))
		require.Equal(t, server.DefaultLease/3+4*time.Second, time.Since(start))
		require.Equal(t, 1, calls)
	})
}

// A claim that began just before Shutdown is released.
func TestShutdown_releasesWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			time.Sleep(time.Second)
			return s.TxStore.Claim(ctx, req)
		}
		seen := &witness{}
		g := newGuard(t, s, server.Config{Observer: seen})
		h := newRoute(t, g, server.Opaque, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
		go func() { requireCode(t, send(h, "k", "b"), wire.StoreUnavailable) }()
		synctest.Wait()
		require.NoError(t, g.Shutdown(t.Context()))
		require.Equal(t, server.StateReleased, readRecord(t, s, seen).State)
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics := server.NewMetrics()
		var _ expvar.Var = metrics
		var runs atomic.Int64
		g := newGuard(t, memstore.New(), server.Config{Observer: metrics})
		h, err := g.Route(server.Route{Effect: server.Keyed, Name: "orders"}, slow(3*time.Second, &runs))
		require.NoError(t, err)
		go send(h, "k", "b")
		synctest.Wait()
		send(h, "k", "b", wait(1)...) // waits, and gives up
		send(h, "k", "c")
		time.Sleep(time.Minute)
		send(h, "k", "b")

		got := metrics.Snapshot()["orders"]
		for name, want := range map[string]int64{
			"miss": 1, "hit": 1, "mismatch": 1, "in_progress": 1, "wait_timeout": 1, "claimed": 1, "settled": 1, "store_error": 0,
		} {
			require.Equal(t, want, got.Counts[name], name)
		}
		require.Equal(t, map[wire.Code]int64{wire.InProgress: 1, wire.KeyReused: 1}, got.Refused)
		require.EqualValues(t, 1, got.PendingAge.Count)
		require.InDelta(t, 3, got.PendingAge.SumSeconds, 0)
		require.InDelta(t, 1, got.Wait.SumSeconds, 0)
		for _, b := range got.PendingAge.Buckets {
			require.Equal(t, b.UpTo >= 3, b.Count == 1, "bucket up to %v s", b.UpTo)
		}
		var decoded map[string]server.RouteSnapshot
		require.NoError(t, json.Unmarshal([]byte(metrics.String()), &decoded))
		require.Equal(t, metrics.Snapshot(), decoded)
	})
}

// Neither logs nor refusals nor events show a key, a scope or a body.
func TestPrivacy(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	seen := &witness{}
	s := &flaky{TxStore: memstore.New()}
	g, err := server.NewGuard(s, func(*http.Request) (string, error) { return "canary-scope", nil }, server.Config{
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Observer: seen,
		KeyPolicy: func(k childkey.Key) error {
			if strings.HasSuffix(k.String(), "@") {
				return fmt.Errorf("%s is an address", k)
			}
			return nil
		},
	})
	require.NoError(t, err)
	h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "canary-answer") })
	var out strings.Builder
	show := func(w *httptest.ResponseRecorder) { out.WriteString(w.Body.String() + headerText(w) + "\n") }
	send(h, "canary-key", "canary-body")
	show(send(h, "canary-key", "other"))
	show(send(h, "canary-key@", "b"))
	show(send(h, "canary-key ö", "b"))
	show(send(h, "canary-key, other", "b"))
	show(send(h, "canary-key-2", "b", wire.HeaderFirstSent, "canary-time"))
	s.claim = func(context.Context, store.ClaimRequest) (store.Record, bool, error) {
		return store.Record{}, false, errDown
	}
	down := send(h, "canary-key", "canary-body")
	show(down)
	require.NotContains(t, out.String()+log.String()+fmt.Sprint(seen.events), "canary")
	require.NotContains(t, out.String(), errDown.Error(), "the store's errors are for the log")

	problem, ok := wire.ParseProblem(down.Header().Get("Content-Type"), down.Body.Bytes())
	require.True(t, ok)
	require.Contains(t, log.String(), `"id":"`+strings.TrimPrefix(problem.Instance, "urn:uuid:")+`"`)
}

// The ctx of a guarded handler has all values that the handler's calls need.
func TestHandler_context(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var in []wire.Inbound
		h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			key, ok := childkey.FromContext(r.Context())
			require.True(t, ok)
			require.Equal(t, hopKey(t, "unscoped", "", "k"), key)
			inbound, ok := wire.FromContext(r.Context())
			require.True(t, ok)
			in = append(in, inbound)
			w.WriteHeader(http.StatusBadGateway)
		})
		record := store.NewID("unscoped", "", key(t, "k"))
		send(h, "k", "b", wire.HeaderRetryAttempt, "2", wire.HeaderRetryAllowance, "0", wire.HeaderRequestTimeout, "1500")
		time.Sleep(time.Minute)
		send(h, "k", "b", wire.HeaderRetryAllowance, "3")
		again := time.Now()
		send(h, "k", "b", wire.HeaderRequestTimeout, "36000000")
		require.Len(t, in, 3)
		require.Equal(t, []int{2, 0}, []int{in[0].Attempt, in[1].Attempt})
		require.Equal(t, []bool{true, false}, []bool{in[0].CallerRetries, in[1].CallerRetries}, "only 0 says so")
		for _, in := range in {
			require.Equal(t, [16]byte(record), in.Parent, "the calls are made for this record, whoever this one was made for")
		}
		require.True(t, in[0].Deadline.Equal(start.Add(1500*time.Millisecond)), in[0].Deadline)
		require.True(t, in[1].Deadline.IsZero())
		require.True(t, in[2].Deadline.Equal(again.Add(server.DefaultHandlerTimeout)), "a handler's own time is the most there is")
		require.True(t, in[0].FirstSent.Equal(start) && in[1].FirstSent.Equal(start), "the first claim counts for every run")
	})
}

// The library itself links only the standard library, childkey and its own packages.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, path := range deps(t) {
		first, _, _ := strings.Cut(path, "/")
		own := path == "github.com/fanonce/fanonce/server" || path == "github.com/fanonce/fanonce/server/store" ||
			strings.HasPrefix(path, "github.com/fanonce/fanonce/server/internal/") || strings.HasPrefix(path, "github.com/fanonce/fanonce/childkey")
		if strings.Contains(first, ".") && !own && path != "github.com/google/uuid" {
			t.Errorf("package server imports %s", path)
		}
	}
}

func deps(tb testing.TB) []string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(tb, err)
	return strings.Fields(string(out))
}
