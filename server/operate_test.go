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
)

var ann = server.Person{Actor: "ann", Reason: "the bank's portal shows it"}

// unscopedID is the ID of a key of a guard that newGuard made.
func unscopedID(tb testing.TB, g *server.Guard, key string) server.ID {
	tb.Helper()
	k, err := childkey.Parse(key)
	require.NoError(tb, err)
	return g.IDOf("unscoped", k)
}

// failing leaves key "k" unknown: its opaque run answered 500.
func failing(tb testing.TB, cfg server.Config) (*server.Guard, http.Handler, *atomic.Int64) {
	tb.Helper()
	runs := new(atomic.Int64)
	g := newGuard(tb, memstore.New(), cfg)
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
		j     server.Judgement
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
			g, h, runs := failing(t, server.Config{Observer: seen})
			stuck, err := g.ListStuck(t.Context(), server.StuckQuery{})
			require.NoError(t, err)
			require.Len(t, stuck, 1)
			require.Equal(t, server.StateUnknown, stuck[0].State)

			require.NoError(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, tt.j, ann))
			tt.check(t, h)
			require.Equal(t, tt.runs, runs.Load())
			require.Equal(t, 1, seen.count(server.EventResolved))
			log, err := g.AuditLog(t.Context(), stuck[0].ID, 10)
			require.NoError(t, err)
			require.Len(t, log, 1)
			require.Equal(t, server.Audit{Verb: server.VerbResolve, Actor: ann.Actor, Reason: ann.Reason}, log[0].Audit)

			var moved *server.MovedOnError
			require.ErrorAs(t, g.Resolve(t.Context(), stuck[0].ID, stuck[0].Fence, tt.j, ann), &moved, "decided twice")
			require.Greater(t, moved.Fence, stuck[0].Fence)
			stuck, err = g.ListStuck(t.Context(), server.StuckQuery{})
			require.NoError(t, err)
			require.Empty(t, stuck)
		})
	}
}

// What an undo is told after somebody looked into the forward call.
func TestResolve_whatAnUndoIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		j    server.Judgement
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

// A quarantined key is refused until somebody lets it go on, and then starts
// counting anew.
func TestResolve_poisoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		cfg := server.Config{MaxDeaths: 1}
		g := newGuard(t, shared, cfg)
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
		for range 2 {
			die(t, shared, server.Keyed, cfg)
		}
		requireCode(t, send(h, "k", "b"), wire.Poisoned)
		requireCode(t, send(h, "k", "b"), wire.Poisoned)
		stuck, err := g.ListStuck(t.Context(), server.StuckQuery{})
		require.NoError(t, err)
		require.Equal(t, server.StatePoisoned, stuck[0].State)
		require.Equal(t, 2, stuck[0].Deaths)
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
		id   server.ID
		j    server.Judgement
		by   server.Person
		want error
	}{
		{"nothing said", id, server.StillUnknown(), ann, server.ErrArgument},
		{"zero", id, server.Judgement{}, ann, server.ErrArgument},
		{"nobody", id, server.NeverHappened(), server.Person{Reason: "r"}, server.ErrArgument},
		{"no reason", id, server.NeverHappened(), server.Person{Actor: "a", Reason: " "}, server.ErrArgument},
		{"long reason", id, server.NeverHappened(), server.Person{Actor: "a", Reason: strings.Repeat("r", 1025)}, server.ErrArgument},
		{"no text", id, server.NeverHappened(), server.Person{Actor: "\xff", Reason: "r"}, server.ErrArgument},
		{"NUL", id, server.NeverHappened(), server.Person{Actor: "a\x00", Reason: "r"}, server.ErrArgument},
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
	_, err := g.AuditLog(t.Context(), id, 0)
	require.ErrorIs(t, err, server.ErrArgument)
	for _, q := range []server.StuckQuery{
		{Limit: -1},
		{Running: -1},
		{Effect: server.Opaque + 1},
		{States: []server.State{server.StateUnknown, 0}},
		{States: []server.State{server.StateCancelled + 1}},
	} {
		_, err = g.ListStuck(t.Context(), q)
		require.ErrorIs(t, err, server.ErrArgument, "%+v", q)
	}
}

func TestListStuck_filters(t *testing.T) {
	t.Parallel()
	g, _, _ := failing(t, server.Config{})
	for _, tt := range []struct {
		name string
		q    server.StuckQuery
		want int
	}{
		{"anything", server.StuckQuery{}, 1},
		{"of its state", server.StuckQuery{States: []server.State{server.StateUnknown, server.StateReleased}}, 1},
		{"of another state", server.StuckQuery{States: []server.State{server.StatePoisoned}}, 0},
		{"of its effect", server.StuckQuery{Effect: server.Opaque}, 1},
		{"of another effect", server.StuckQuery{Effect: server.Keyed}, 0},
		{"of its route", server.StuckQuery{Route: "default"}, 1},
		{"of another route", server.StuckQuery{Route: "POST /orders"}, 0},
	} {
		stuck, err := g.ListStuck(t.Context(), tt.q)
		require.NoError(t, err, tt.name)
		require.Len(t, stuck, tt.want, tt.name)
		if tt.want > 0 {
			after := server.Cursor{CreatedAt: stuck[0].CreatedAt, ID: stuck[0].ID}
			stuck, err = g.ListStuck(t.Context(), server.StuckQuery{After: after})
			require.NoError(t, err)
			require.Empty(t, stuck, "the next page")
		}
	}
}

// A completed key is not for Resolve, and a live one for nobody.
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
		stuck, err := g.ListStuck(t.Context(), server.StuckQuery{})
		require.NoError(t, err)
		require.Empty(t, stuck)
		time.Sleep(500 * time.Millisecond)
		stuck, err = g.ListStuck(t.Context(), server.StuckQuery{Running: 500 * time.Millisecond})
		require.NoError(t, err)
		require.Len(t, stuck, 1)
		time.Sleep(time.Second)
		require.ErrorAs(t, g.Resolve(t.Context(), id, 1, server.RunAgain(), ann), &moved)
		require.Equal(t, server.StateCompleted, moved.State)
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	seen := new(witness)
	g := newGuard(t, memstore.New(), server.Config{CacheBytes: 1 << 20, Observer: seen})
	h := newRoute(t, g, server.Keyed, answer(http.StatusOK, &runs))
	send(h, "k", "b")
	requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, true)
	id := unscopedID(t, g, "k")
	require.ErrorIs(t, g.Forget(t.Context(), id, 1, server.Person{}), server.ErrArgument)
	require.NoError(t, g.Forget(t.Context(), id, 1, ann))
	require.ErrorIs(t, g.Forget(t.Context(), id, 1, ann), server.ErrNotFound)
	send(h, "k", "another body")
	require.EqualValues(t, 2, runs.Load(), "a forgotten key is new, in the cache too")
	require.Equal(t, 1, seen.count(server.EventForgotten))
	log, err := g.AuditLog(t.Context(), server.ID{}, 1)
	require.NoError(t, err)
	require.Equal(t, server.VerbForget, log[0].Verb)
}

// A resolution whose answer was lost is sent again, and knows itself.
func TestResolve_lostAnswer(t *testing.T) {
	t.Parallel()
	store := &lossy{TxStore: memstore.New()}
	g := newGuard(t, store, server.Config{})
	h := newRoute(t, g, server.Opaque, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	send(h, "k", "b")
	require.NoError(t, g.Resolve(t.Context(), unscopedID(t, g, "k"), 1, server.Abandoned(), ann))
	require.Equal(t, 2, store.asked)
	requireCode(t, send(h, "k", "b"), wire.KeyCancelled)
}

// lossy loses the answer to the first resolution.
type lossy struct {
	server.TxStore
	asked int
}

func (l *lossy) Resolve(ctx context.Context, req server.ResolveRequest) (server.Record, bool, error) {
	r, ok, err := l.TxStore.Resolve(ctx, req)
	if l.asked++; l.asked == 1 {
		return server.Record{}, false, server.ErrFateUnknown
	}
	return r, ok, err
}
