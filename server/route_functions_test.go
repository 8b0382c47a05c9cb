package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// The answer to a refused COMMIT has the service's own shape, like every verdict of a typed handler, and is replayed
// in that shape.
func TestOnCommitError_rendered(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{RenderProblem: ownShape})
	runs := 0
	h, err := g.Route(server.Route{
		Effect: server.Transactional,
		OnCommitError: func(context.Context, *store.TxError) (server.Response, error) {
			return server.Response{}, &server.StatusError{Status: http.StatusConflict, Code: "name-taken", Detail: "Choose another."}
		},
	}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		runs++
		require.NoError(t, memstore.Tx(r.Context()).Fail(errCommitRefused))
	}))
	require.NoError(t, err)
	for _, replayed := range []bool{false, true} {
		w := send(h, "k", "b")
		requireAnswer(t, w, http.StatusConflict, `{"error":{"code":"name-taken","message":"Choose another."}}`, replayed)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	}
	require.Equal(t, 1, runs)
}

// The run has ended when OnCommitError is called: the error of OnCommitError cannot settle the run.
func TestOnCommitError_cannotSettle(t *testing.T) {
	t.Parallel()
	h, err := newGuard(t, memstore.New(), server.Config{}).Route(server.Route{
		Effect: server.Transactional,
		OnCommitError: func(context.Context, *store.TxError) (server.Response, error) {
			return server.Response{}, &server.StatusError{Status: http.StatusConflict, Settle: []server.SettleOption{server.Final()}}
		},
	}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, memstore.Tx(r.Context()).Fail(errCommitRefused))
	}))
	require.NoError(t, err)
	requireCode(t, send(h, "k", "b"), wire.TransactionFailed)
}

// A form that a route's function parses does not reach the handler: the function sees no
// body, and so its form is empty.
func TestRoute_functionsParseTheForm(t *testing.T) {
	t.Parallel()
	parse := func(r *http.Request) string { return r.FormValue("key") }
	for name, route := range map[string]server.Route{
		"Key":         {Key: func(r *http.Request, _ []byte) (string, error) { return parse(r), nil }},
		"Fingerprint": {Fingerprint: func(r *http.Request, b []byte) ([]byte, error) { parse(r); return b, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route.Effect = server.Keyed
			h, err := newGuard(t, memstore.New(), server.Config{}).Route(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(r.PostFormValue("amount")))
			}))
			require.NoError(t, err)
			r := ordered("k", "amount=7")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.URL.RawQuery = "key=k"
			requireAnswer(t, serve(h, r), http.StatusOK, "7", false)
		})
	}
}

// A body that panics leaves nothing for Shutdown to end: its ResponseWriter belongs to
// net/http again.
func TestShutdown_afterABodyThatPanicked(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	r := ordered("k", "")
	r.Body, r.ContentLength = panickingBody{strings.NewReader("")}, -1
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	require.Panics(t, func() { h.ServeHTTP(w, r) })
	ended := len(w.set)
	require.NoError(t, g.Shutdown(t.Context()))
	require.Len(t, w.set, ended, "a read deadline was set after the request had ended")
}

type panickingBody struct{ io.Reader }

func (panickingBody) Read([]byte) (int, error) { panic(http.ErrAbortHandler) }

func (panickingBody) Close() error { return nil }
