package server_test

import (
	"context"
	"net/http"
	"strings"
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

var ann = store.Audit{Actor: "ann", Reason: "the bank's portal shows it"}

// unscopedID is the ID of a key of a guard that newGuard made.
func unscopedID(tb testing.TB, g *server.Guard, key string) store.ID {
	tb.Helper()
	k, err := childkey.Parse(key)
	require.NoError(tb, err)
	return g.IDOf("unscoped", k)
}

// failing leaves key "k" unknown: its opaque run answered 500.
func failing(tb testing.TB, cfg server.Config) (*server.Guard, http.Handler, *atomic.Int64) {
	tb.Helper()
	return failingOn(tb, memstore.New(), cfg)
}

func failingOn(tb testing.TB, s store.Store, cfg server.Config) (*server.Guard, http.Handler, *atomic.Int64) {
	tb.Helper()
	runs := new(atomic.Int64)
	g := newGuard(tb, s, cfg)
	h := newRoute(tb, g, server.Opaque, func(w http.ResponseWriter, _ *http.Request) {
		if runs.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	require.Equal(tb, http.StatusInternalServerError, send(h, "k", "b").Code)
	requireCode(tb, send(h, "k", "b"), wire.OutcomeUnknown)
	return g, h, runs
}

func TestResolve(t *testing.T) {
	t.Parallel()
	receipt := server.Response{
		Status: http.StatusCreated, Body: []byte("receipt 7"),
		Header: http.Header{"content-type": {"text/plain"}, "Set-Cookie": {"a=b"}},
	}
	for _, tt := range []struct {
		name  string
		j     server.Resolution
		check func(*testing.T, http.Handler)
		runs  int64
	}{
		{"happened", server.Happened(receipt), func(t *testing.T, h http.Handler) {
			w := send(h, "k", "b")
			requireAnswer(t, w, http.StatusCreated, "receipt 7", true)
			require.Equal(t, "text/plain", w.Header().Get("Content-Type"))
			require.Empty(t, w.Header().Get("Set-Cookie"))
			requireCode(t, send(h, "k", "other"), wire.KeyReused)
		}, 1},
		{"never happened", server.NeverHappened(), func(t *testing.T, h http.Handler) {
			requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
			requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", true)
		}, 2},
		{"run again", server.RunAgain(), func(t *testing.T, h http.Handler) {
			requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
		}, 2},
		{"abandoned", server.Abandoned(), func(t *testing.T, h http.Handler) {
			requireCode(t, send(h, "k", "b"), wire.KeyCancelled)
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := new(witness)
			keys := memstore.New()
			g, h, runs := failingOn(t, keys, server.Config{Observer: seen})
			stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
			require.NoError(t, err)
			require.Len(t, stuck, 1)
			require.Equal(t, server.StateUnknown, stuck[0].State)

			require.NoError(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, tt.j, ann))
			tt.check(t, h)
			require.Equal(t, tt.runs, runs.Load())
			require.Equal(t, 1, seen.count(server.EventResolved))
			log, err := keys.Reader().AuditPage(t.Context(), store.AuditRequest{ID: stuck[0].ID, Limit: 10})
			require.NoError(t, err)
			require.Len(t, log, 1)
			require.Equal(t, store.Audit{Verb: store.VerbResolve, Actor: ann.Actor, Reason: ann.Reason}, log[0].Audit)

			var moved *server.MovedOnError
			require.ErrorAs(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, tt.j, ann), &moved, "decided twice")
			require.Greater(t, moved.Fence, stuck[0].Fence)
			stuck, err = g.ListStuck(t.Context(), store.ListRequest{})
			require.NoError(t, err)
			require.Empty(t, stuck)
		})
	}
}

// An undo is told the fate that a person's resolution of the forward call implies.
func TestResolve_whatAnUndoIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		j    server.Resolution
		want server.Fate
	}{
		{server.Happened(server.Response{Status: http.StatusOK}), server.Ran},
		{server.Happened(server.Response{Status: http.StatusPaymentRequired}), server.NeverRan},
		{server.NeverHappened(), server.NeverRan},
		{server.RunAgain(), server.MaybeRan},
		{server.Abandoned(), server.MaybeRan},
	} {
		t.Run(tt.j.String(), func(t *testing.T) {
			t.Parallel()
			g, _, _ := failing(t, server.Config{})
			require.NoError(t, g.Resolve(t.Context(), unscopedID(t, g, "k"), 1, tt.j, ann))
			undo := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
				fate, err := server.Barrier(r.Context())
				require.NoError(t, err)
				require.Equal(t, tt.want, fate)
			})
			requireAnswer(t, send(undo, "undo", "", wire.HeaderCancels, "k"), http.StatusOK, "", false)
		})
	}
}

// A quarantined key is refused until a person releases it. Then its recovery
// attempts count from zero.
func TestResolve_quarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		cfg := server.Config{MaxRecoveryAttempts: 1}
		g := newGuard(t, shared, cfg)
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
		for range 2 {
			die(t, shared, server.Keyed, cfg)
		}
		requireCode(t, send(h, "k", "b"), wire.Poisoned)
		requireCode(t, send(h, "k", "b"), wire.Poisoned)
		stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, server.StateQuarantined, stuck[0].State)
		require.Equal(t, 2, stuck[0].RecoveryAttempts)
		require.Equal(t, "default", stuck[0].Route, "of the call that found it dead")
		require.NoError(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, server.RunAgain(), ann))
		die(t, shared, server.Keyed, cfg)
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
	})
}

func TestResolve_refuses(t *testing.T) {
	t.Parallel()
	g, h, runs := failing(t, server.Config{MaxResponseBytes: 10})
	id := unscopedID(t, g, "k")
	for _, tt := range []struct {
		name string
		id   store.ID
		j    server.Resolution
		by   store.Audit
		want error
	}{
		{"nothing said", id, server.StillUnknown(), ann, server.ErrArgument},
		{"zero", id, server.Resolution{}, ann, server.ErrArgument},
		{"nobody", id, server.NeverHappened(), store.Audit{Reason: "r"}, server.ErrArgument},
		{"no reason", id, server.NeverHappened(), store.Audit{Actor: "a", Reason: " "}, server.ErrArgument},
		{"another verb", id, server.NeverHappened(), store.Audit{Verb: store.VerbForget, Actor: "a", Reason: "r"}, server.ErrArgument},
		{"long reason", id, server.NeverHappened(), store.Audit{Actor: "a", Reason: strings.Repeat("r", 1025)}, server.ErrArgument},
		{"no text", id, server.NeverHappened(), store.Audit{Actor: "\xff", Reason: "r"}, server.ErrArgument},
		{"NUL", id, server.NeverHappened(), store.Audit{Actor: "a\x00", Reason: "r"}, server.ErrArgument},
		{"no status", id, server.Happened(server.Response{}), ann, server.ErrArgument},
		{"body of 204", id, server.Happened(server.Response{Status: 204, Body: []byte("b")}), ann, server.ErrArgument},
		{"body too large", id, server.Happened(server.Response{Status: 200, Body: make([]byte, 11)}), ann, server.ErrArgument},
		{"no such key", unscopedID(t, g, "other"), server.NeverHappened(), ann, server.ErrNotFound},
	} {
		require.ErrorIs(t, g.Resolve(t.Context(), tt.id, 1, tt.j, tt.by), tt.want, tt.name)
	}
	requireCode(t, send(h, "k", "b"), wire.OutcomeUnknown)
	require.EqualValues(t, 1, runs.Load())
	var moved *server.MovedOnError
	require.ErrorAs(t, g.Resolve(t.Context(), id, 7, server.NeverHappened(), ann), &moved)
	require.EqualValues(t, 1, moved.Fence)
	for _, q := range []store.ListRequest{
		{Limit: -1},
		{Effect: server.Opaque + 1},
		{States: []server.State{server.StateUnknown, 0}},
		{States: []server.State{server.StateCancelled + 1}},
		{States: []server.State{server.StateReleased}},
	} {
		_, err := g.ListStuck(t.Context(), q)
		require.ErrorIs(t, err, server.ErrArgument, "%+v", q)
	}
}

func TestListStuck_filters(t *testing.T) {
	t.Parallel()
	g, _, _ := failing(t, server.Config{})
	for _, tt := range []struct {
		name string
		q    store.ListRequest
		want int
	}{
		{"anything", store.ListRequest{}, 1},
		{"of its state", store.ListRequest{States: []server.State{server.StateUnknown, server.StateInProgress}}, 1},
		{"of another state", store.ListRequest{States: []server.State{server.StateQuarantined}}, 0},
		{"of its effect", store.ListRequest{Effect: server.Opaque}, 1},
		{"of another effect", store.ListRequest{Effect: server.Keyed}, 0},
		{"of its route", store.ListRequest{Route: "default"}, 1},
		{"of another route", store.ListRequest{Route: "POST /orders"}, 0},
	} {
		stuck, err := g.ListStuck(t.Context(), tt.q)
		require.NoError(t, err, tt.name)
		require.Len(t, stuck, tt.want, tt.name)
		if tt.want > 0 {
			after := store.Cursor{CreatedAt: stuck[0].CreatedAt, ID: stuck[0].ID}
			stuck, err = g.ListStuck(t.Context(), store.ListRequest{After: after})
			require.NoError(t, err)
			require.Empty(t, stuck, "the next page")
		}
	}
}

// Resolve refuses a completed key. Every operator's method refuses a key with a live run.
func TestOperate_nothingThatRequestsSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{})
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		go send(h, "k", "b")
		synctest.Wait()
		var moved *server.MovedOnError
		id := unscopedID(t, g, "k")
		require.ErrorAs(t, g.Resolve(t.Context(), id, 1, server.RunAgain(), ann), &moved)
		require.Equal(t, server.StateInProgress, moved.State)
		require.ErrorAs(t, g.Forget(t.Context(), id, 1, ann), &moved)
		stuck, err := g.ListStuck(t.Context(), store.ListRequest{})
		require.NoError(t, err)
		require.Empty(t, stuck)
		time.Sleep(2 * time.Second)
		require.ErrorAs(t, g.Resolve(t.Context(), id, 1, server.RunAgain(), ann), &moved)
		require.Equal(t, server.StateCompleted, moved.State)
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	seen := new(witness)
	keys := memstore.New()
	g := newGuard(t, keys, server.Config{CacheBytes: 1 << 20, Observer: seen})
	h := newRoute(t, g, server.Keyed, answer(http.StatusOK, &runs))
	send(h, "k", "b")
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, true)
	id := unscopedID(t, g, "k")
	require.ErrorIs(t, g.Forget(t.Context(), id, 1, store.Audit{}), server.ErrArgument)
	require.NoError(t, g.Forget(t.Context(), id, 1, ann))
	require.ErrorIs(t, g.Forget(t.Context(), id, 1, ann), server.ErrNotFound)
	send(h, "k", "another body")
	require.EqualValues(t, 2, runs.Load(), "a forgotten key is new, in the cache too")
	require.Equal(t, 1, seen.count(server.EventForgotten))
	log, err := keys.Reader().AuditPage(t.Context(), store.AuditRequest{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, store.VerbForget, log[0].Verb)
}

// A resolution whose answer was lost is sent again, and finds its own result.
func TestResolve_lostAnswer(t *testing.T) {
	t.Parallel()
	s := &lossy{TxStore: memstore.New()}
	g := newGuard(t, s, server.Config{})
	h := newRoute(t, g, server.Opaque, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	send(h, "k", "b")
	require.NoError(t, g.Resolve(t.Context(), unscopedID(t, g, "k"), 1, server.Abandoned(), ann))
	require.Equal(t, 2, s.asked)
	requireCode(t, send(h, "k", "b"), wire.KeyCancelled)
}

// lossy loses the answer to the first resolution.
type lossy struct {
	store.TxStore
	asked int
}

func (l *lossy) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	r, ok, err := l.TxStore.Resolve(ctx, req)
	if l.asked++; l.asked == 1 {
		return store.Record{}, false, store.ErrFateUnknown
	}
	return r, ok, err
}
