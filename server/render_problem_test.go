package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// ownShape renders problems for a service with its own error shape.
func ownShape(_ *http.Request, p wire.Problem) server.Response {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": p.Code, "message": p.Detail}})
	return server.Response{
		Status: p.Status, Body: body,
		Header: http.Header{"content-type": {"application/json"}, "X-Shape": {"own"}},
	}
}

func TestRenderProblem(t *testing.T) {
	t.Parallel()
	h := newRoute(t, newGuard(t, memstore.New(), server.Config{RenderProblem: ownShape}), server.Keyed, func(http.ResponseWriter, *http.Request) {})
	send(h, "k", "b")
	w := send(h, "k", "other")
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "own", w.Header().Get("X-Shape"))
	require.Contains(t, w.Body.String(), `"error":{"code":"key-reused","message":"A key belongs`)
	require.Equal(t, "key-reused", w.Header().Get(wire.HeaderCode))
	require.Equal(t, "false", w.Header().Get(wire.HeaderReplayed))
	require.Equal(t, "false", w.Header().Get(wire.HeaderShouldRetry))
	require.Equal(t, "false", w.Header().Get(wire.HeaderXShouldRetry))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

// A renderer may choose another status for a refusal, and other headers. It cannot remove the headers by which
// callers decide.
func TestRenderProblem_cannotChangeTheVerdict(t *testing.T) {
	t.Parallel()
	busy := func(cfg server.Config) *httptest.ResponseRecorder {
		return send(recordIn(t, func(*store.Record) {}, cfg, server.Route{}), "k", "b", wire.HeaderPrefer, "wait=0")
	}
	w := busy(server.Config{RenderProblem: func(_ *http.Request, p wire.Problem) server.Response {
		return server.Response{Status: http.StatusTooManyRequests, Body: []byte("busy"), Header: http.Header{
			"idempotency-code":      {"key-cancelled"},
			wire.HeaderReplayed:     {"true"},
			wire.HeaderShouldRetry:  {"false"},
			wire.HeaderXShouldRetry: {"false"},
			wire.HeaderRetryAfter:   {"9999"},
			wire.HeaderRetryAfterMs: {"9999999"},
			"Content-Length":        {"1"},
			"Transfer-Encoding":     {"chunked"},
			"Connection":            {"close"},
			"Bad name":              {"x"},
			"X-Split":               {"a\r\nb"},
			"Cache-Control":         {"private"},
		}}
	}})
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "busy", w.Body.String())
	require.Equal(t, []string{"in-progress"}, w.Header().Values(wire.HeaderCode))
	require.Equal(t, []string{"false"}, w.Header().Values(wire.HeaderReplayed))
	require.Equal(t, []string{"true"}, w.Header().Values(wire.HeaderShouldRetry))
	require.Equal(t, []string{"true"}, w.Header().Values(wire.HeaderXShouldRetry))
	require.Equal(t, []string{"1"}, w.Header().Values(wire.HeaderRetryAfter))
	require.Equal(t, []string{"1000"}, w.Header().Values(wire.HeaderRetryAfterMs))
	require.Equal(t, "4", w.Header().Get("Content-Length"))
	require.Empty(t, w.Header().Values("Transfer-Encoding"))
	require.Empty(t, w.Header().Values("Connection"))
	require.NotContains(t, w.Header(), "Bad name")
	require.NotContains(t, w.Header().Get("X-Split"), "\n")
	require.Equal(t, "private", w.Header().Get("Cache-Control"))
}

// A broken renderer causes a 500 in our shape, and a line in the log. The caller still learns what happened from the
// headers.
func TestRenderProblem_broken(t *testing.T) {
	t.Parallel()
	body := []byte("b")
	for name, render := range map[string]func(*http.Request, wire.Problem) server.Response{
		"panic": func(*http.Request, wire.Problem) server.Response { panic("canary") },
		"abort": func(*http.Request, wire.Problem) server.Response { panic(http.ErrAbortHandler) },
		"nil dereference": func(r *http.Request, _ wire.Problem) server.Response {
			return server.Response{Status: len(r.Response.Status)}
		},
		"empty":          func(*http.Request, wire.Problem) server.Response { return server.Response{} },
		"no body":        func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 409} },
		"no status":      func(*http.Request, wire.Problem) server.Response { return server.Response{Body: body} },
		"success":        func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 200, Body: body} },
		"accepted":       func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 202, Body: body} },
		"redirect":       func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 303, Body: body} },
		"interim":        func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 102, Body: body} },
		"no HTTP status": func(*http.Request, wire.Problem) server.Response { return server.Response{Status: 1000, Body: body} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log journal
			w := send(recordIn(t, func(*store.Record) {}, server.Config{RenderProblem: render, Logger: log.logger(slog.LevelError)}, server.Route{}),
				"k", "b", wire.HeaderPrefer, "wait=0")
			require.Equal(t, http.StatusInternalServerError, w.Code)
			p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
			require.True(t, ok)
			require.Equal(t, wire.InProgress, p.Code)
			require.Equal(t, "in-progress", w.Header().Get(wire.HeaderCode))
			require.Equal(t, "true", w.Header().Get(wire.HeaderShouldRetry))
			require.NotEmpty(t, w.Header().Get(wire.HeaderRetryAfter))
			logged := log.lines(t, "RenderProblem")
			require.Len(t, logged, 1)
			require.Equal(t, "ERROR", logged[0]["level"])
			require.Equal(t, strings.TrimPrefix(p.Instance, "urn:uuid:"), logged[0]["id"])
			require.Empty(t, log.lines(t, "canary"), "what it panicked with may hold anything")
		})
	}
}

// A typed handler's errors have the service's shape too, and are stored in it.
func TestRenderProblem_typedHandler(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	mux := http.NewServeMux()
	var broken atomic.Bool
	g := newGuard(t, memstore.New(), server.Config{RenderProblem: func(r *http.Request, p wire.Problem) server.Response {
		answer := ownShape(r, p)
		if broken.Load() {
			answer.Status = http.StatusConflict // another verdict than the handler's
		}
		return answer
	}})
	require.NoError(t, server.Handle(mux, g, reserve, server.Keyed, func(context.Context, lines) (hold, error) {
		runs.Add(1)
		return hold{}, &server.StatusError{Status: http.StatusPaymentRequired, Code: "declined", Detail: "No funds.", Err: errors.New("canary")}
	}))
	for _, replayed := range []bool{false, true} {
		w := call(mux, "{}", "application/json")
		requireAnswer(t, w, http.StatusPaymentRequired, `{"error":{"code":"declined","message":"No funds."}}`, replayed)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Empty(t, w.Header().Get(wire.HeaderCode), "the handler's verdict is no refusal of the guard")
	}
	require.EqualValues(t, 1, runs.Load())

	broken.Store(true)
	r := httptest.NewRequest(http.MethodPost, "/shelves/a/reservations", strings.NewReader("{}"))
	r.Header.Set(wire.HeaderKey, "another")
	require.Equal(t, http.StatusInternalServerError, serve(mux, r).Code)
}
