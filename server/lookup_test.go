package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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

func lookup(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return serve(h, r)
}

type keyState struct {
	State       string     `json:"state"`
	Fence       int64      `json:"fence"`
	Status      int        `json:"status"`
	Replayable  bool       `json:"replayable"`
	CreatedAt   time.Time  `json:"created_at"`
	LeaseUntil  *time.Time `json:"lease_until"`
	ReplayUntil *time.Time `json:"replay_until"`
	ExpiresAt   time.Time  `json:"expires_at"`
}

func decodeState(tb testing.TB, w *httptest.ResponseRecorder) (s keyState) {
	tb.Helper()
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	require.Equal(tb, "no-store", w.Header().Get("Cache-Control"))
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}

func TestLookupHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		g := newGuard(t, memstore.New(), server.Config{})
		orders := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second)
			answer(http.StatusCreated, &runs)(w, r)
		})
		mux := http.NewServeMux()
		mux.Handle("/keys/{key}", g.LookupHandler())
		start := time.Now().UTC()

		requireCode(t, lookup(mux, http.MethodGet, "/keys/k"), wire.KeyNotFound)
		go send(orders, "k", "b")
		time.Sleep(4 * time.Second)
		w := lookup(mux, http.MethodGet, "/keys/k")
		running := decodeState(t, w)
		lease := start.Add(server.DefaultLease)
		require.Equal(t, keyState{State: "in_progress", Fence: 1, CreatedAt: start, LeaseUntil: &lease, ExpiresAt: start.Add(server.DefaultAuditRetention)}, running)
		require.Equal(t, "4", w.Header().Get(wire.HeaderRetryAfter))

		time.Sleep(6 * time.Second)
		synctest.Wait()
		until := start.Add(10*time.Second + server.DefaultRetention)
		done := keyState{State: "completed", Fence: 1, Status: 201, Replayable: true, CreatedAt: start, ReplayUntil: &until, ExpiresAt: start.Add(server.DefaultAuditRetention)}
		for _, target := range []string{"/keys/k", "/keys/%22k%22"} {
			require.Equal(t, done, decodeState(t, lookup(mux, http.MethodGet, target)))
		}
		require.Equal(t, done, decodeState(t, lookup(g.LookupHandler(), http.MethodGet, "/", wire.HeaderKey, `"k"`)))
		require.Equal(t, http.StatusOK, lookup(mux, http.MethodHead, "/keys/k").Code)
		replay := lookup(mux, http.MethodGet, "/keys/k?answer=1")
		requireAnswer(t, replay, http.StatusCreated, firstAnswer, true)

		time.Sleep(server.DefaultRetention)
		done.Replayable = false
		require.Equal(t, done, decodeState(t, lookup(mux, http.MethodGet, "/keys/k?answer=1")))
		require.EqualValues(t, 1, runs.Load())
	})
}

func TestLookupHandler_refuses(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	g, err := server.NewGuard(s, scopeByHeader, server.Config{})
	require.NoError(t, err)
	orders := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	send(orders, "k", "b", "X-Scope", "tenant-1")
	h := g.LookupHandler()

	requireCode(t, lookup(h, http.MethodGet, "/", "X-Scope", "none", wire.HeaderKey, "k"), wire.ScopeMissing)
	requireCode(t, lookup(h, http.MethodGet, "/", "X-Scope", "t\xff", wire.HeaderKey, "k"), wire.ScopeMissing)
	requireCode(t, lookup(h, http.MethodGet, "/"), wire.KeyMissing)
	requireCode(t, lookup(h, http.MethodGet, "/", wire.HeaderKey, "a b"), wire.KeyInvalid)
	requireCode(t, lookup(h, http.MethodGet, "/", wire.HeaderKey, "a", wire.HeaderKey, "a"), wire.KeyInvalid)
	absent := lookup(h, http.MethodGet, "/", "X-Scope", "tenant-1", wire.HeaderKey, "other")
	foreign := lookup(h, http.MethodGet, "/", "X-Scope", "tenant-2", wire.HeaderKey, "k")
	requireCode(t, absent, wire.KeyNotFound)
	requireCode(t, foreign, wire.KeyNotFound)
	require.Equal(t, withoutInstance(t, absent), withoutInstance(t, foreign), "nobody learns that another scope has the key")
	require.Equal(t, absent.Header(), foreign.Header())
	post := lookup(h, http.MethodPost, "/", "X-Scope", "tenant-1", wire.HeaderKey, "k")
	requireCode(t, post, wire.MethodNotAllowed)
	require.Equal(t, "GET, HEAD", post.Header().Get("Allow"))

	down := newGuard(t, unreadable{memstore.New()}, server.Config{})
	requireCode(t, lookup(down.LookupHandler(), http.MethodGet, "/", wire.HeaderKey, "k"), wire.StoreUnavailable)
}

// withoutInstance returns the problem without the name of the key in its scope.
func withoutInstance(t *testing.T, w *httptest.ResponseRecorder) wire.Problem {
	t.Helper()
	p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
	require.True(t, ok)
	p.Instance = ""
	return p
}

type unreadable struct{ store.TxStore }

func (unreadable) Read(context.Context, store.ID) (store.Record, error) {
	return store.Record{}, errDown
}

func TestLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{Codec: newCodec(t, "a")})
		orders := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/orders/7")
			w.WriteHeader(http.StatusCreated)
		})
		key, err := childkey.Parse("k")
		require.NoError(t, err)
		_, err = g.Lookup(t.Context(), "unscoped", key)
		require.ErrorIs(t, err, server.ErrNotFound)
		_, err = g.Lookup(t.Context(), "", key)
		require.ErrorIs(t, err, server.ErrArgument)
		_, err = g.Lookup(t.Context(), "unscoped", childkey.Key{})
		require.ErrorIs(t, err, server.ErrArgument)

		send(orders, "k", "b")
		time.Sleep(2 * server.DefaultRetention)
		requireCode(t, send(orders, "k", "b"), wire.ResponseGone)
		l, err := g.Lookup(t.Context(), "unscoped", key)
		require.NoError(t, err)
		require.Equal(t, server.StateCompleted, l.State)
		require.False(t, l.Replayable)
		require.Equal(t, http.StatusCreated, l.Response.Status)
		require.Equal(t, "/orders/7", l.Response.Header.Get("Location"), "a lookup shows what retries do not get any more")
	})
}
