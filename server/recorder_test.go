package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

func TestRecorder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		body    string
	}{
		{"first status wins", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusAccepted)
		}, http.StatusCreated, ""},
		{"informational is ignored", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "x")
		}, http.StatusOK, "x"},
		{"strings", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }, http.StatusOK, "x"},
		{"no body with 204", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, http.StatusNoContent, ""},
		{"headers after the status do not count", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.Header().Set("Location", "/late")
		}, http.StatusOK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, _ := guarded(t, server.Opaque, tt.handler)
			first, again := send(h, "k", ""), send(h, "k", "")
			requireAnswer(t, first, tt.status, tt.body, false)
			requireAnswer(t, again, tt.status, tt.body, true)
			require.Empty(t, first.Header().Get("Location")+again.Header().Get("Location"))
		})
	}
}

// An answer that cannot be stored is refused before its first byte leaves. For
// the effect class its run has failed.
func TestRecorder_notStorable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		stream  server.StreamPolicy
		handler http.HandlerFunc
	}{
		{"flush", server.StreamRefuse, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "secret")
			w.(http.Flusher).Flush()
			if _, err := fmt.Fprint(w, "more"); !errors.Is(err, server.ErrNotStorable) {
				panic(err)
			}
		}},
		{"flush by controller", server.StreamRefuse, func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, server.ErrNotStorable) {
				panic(err)
			}
		}},
		{"hijack", server.StreamBuffer, func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, server.ErrNotStorable) || !errors.Is(err, http.ErrNotSupported) {
				panic(err)
			}
		}},
		{"status 99", server.StreamBuffer, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) }},
		{"status 1000", server.StreamBuffer, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }},
		{"status 101", server.StreamBuffer, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }},
		{"final", server.StreamBuffer, func(w http.ResponseWriter, r *http.Request) {
			_ = server.Settle(r.Context(), server.Final()) // cannot make it storable
			w.WriteHeader(0)
		}},
	} {
		for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
			runs := 0
			route := server.Route{Effect: effect, Stream: tt.stream}
			h, err := newGuard(t, memstore.New(), server.Config{}).Route(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				tt.handler(w, r)
			}))
			require.NoError(t, err)
			first := send(h, "k", "")
			requireCode(t, first, wire.NotStorable)
			require.NotContains(t, first.Body.String(), "secret")
			again := send(h, "k", "")
			if effect == server.Opaque {
				requireCode(t, again, wire.OutcomeUnknown)
				require.Equal(t, 1, runs, tt.name)
			} else {
				require.Equal(t, 2, runs, tt.name)
			}
		}
	}
}

func TestRecorder_oversize(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	seen := &witness{}
	g := newGuard(t, store, server.Config{MaxResponseBytes: 10, Observer: seen})
	runs := 0
	large := func(w http.ResponseWriter, _ *http.Request) {
		runs++
		for range 11 {
			if _, err := fmt.Fprint(w, "x"); err != nil {
				return
			}
		}
	}
	h := newRoute(t, g, server.Keyed, large)
	requireAnswer(t, send(h, "k", ""), http.StatusOK, strings.Repeat("x", 11), false)
	requireCode(t, send(h, "k", ""), wire.ResponseGone)
	require.Equal(t, 1, runs)
	require.Equal(t, 1, seen.count(server.EventTombstone))

	strict, err := g.Route(server.Route{Effect: server.Transactional, Stream: server.StreamRefuse}, http.HandlerFunc(large))
	require.NoError(t, err)
	requireCode(t, send(strict, "k-2", ""), wire.NotStorable)
}

func TestRecorder_tooManyHeadersMakeATombstone(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		for range 300 {
			w.Header().Add("Link", "<x>")
		}
	})
	require.Len(t, send(h, "k", "").Header().Values("Link"), 300)
	requireCode(t, send(h, "k", ""), wire.ResponseGone)
}

func TestRecorder_writesAfterReturnAreErrors(t *testing.T) {
	t.Parallel()
	returned := make(chan struct{})
	late := make(chan error, 3)
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		go func() {
			<-returned
			_, err := w.Write([]byte("late"))
			late <- err
			late <- http.NewResponseController(w).Flush()
			late <- server.Settle(ctx, server.Final())
		}()
	})
	requireAnswer(t, send(h, "k", ""), http.StatusOK, "", false)
	close(returned)
	require.ErrorIs(t, <-late, server.ErrHandlerReturned)
	require.ErrorIs(t, <-late, server.ErrHandlerReturned)
	require.ErrorIs(t, <-late, server.ErrNoRun)
}

// The headers of an outer layer are sent with first answers and with replays.
func TestRecorder_outerHeaders(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "yes")
		h.ServeHTTP(w, r)
	})
	for range 2 {
		require.Equal(t, "yes", send(outer, "k", "").Header().Get("X-Outer"))
	}
}

// A timeout handler outside of the guard answers the client. The run is still
// recorded.
func TestHandler_insideTimeoutHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := guarded(t, server.Opaque, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			fmt.Fprint(w, "done")
		})
		w := serve(http.TimeoutHandler(h, time.Second, "too slow"), ordered("k", ""))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		time.Sleep(2 * time.Second)
		requireAnswer(t, send(h, "k", ""), http.StatusOK, "done", true)
	})
}
