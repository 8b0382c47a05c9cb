package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// freeAddress returns an address at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// A deploy under load: each request that the service took gets its answer. While it drains it takes new ones, and says
// that it is not ready. A request that it did not take gets no answer: its connection is refused, or was still in the
// listener's queue and is reset by the kernel, or was idle when it was closed.
func TestServe_stopsUnderLoad(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	running := make(chan struct{}, 1000)
	release := make(chan struct{})
	var taken sync.Map // the keys of the runs
	h, err := g.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken.Store(r.Header.Get("Idempotency-Key"), true)
		if r.URL.Path == "/slow" {
			running <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "done")
	}))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/readyz", g.ReadyHandler())
	address := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- g.Serve(ctx, &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}, server.Stop{Drain: 3 * time.Second})
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	ask := func(method, path, key string) (int, string, error) {
		req, err := http.NewRequest(method, "http://"+address+path, http.NoBody)
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	require.Eventually(t, func() bool {
		status, _, _ := ask(http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	}, time.Minute, time.Millisecond)

	var load sync.WaitGroup
	var keys, answered atomic.Int64
	for range 8 {
		load.Go(func() {
			for {
				key := fmt.Sprint("k", keys.Add(1))
				status, body, err := ask(http.MethodPost, "/", key)
				if err != nil {
					_, ran := taken.Load(key)
					assert.False(t, ran, "its answer was lost: %v", err)
					assert.Error(t, ctx.Err(), "%v", err)
					return
				}
				answered.Add(1)
				if status != http.StatusOK || body != "done" {
					t.Errorf("%d %q", status, body)
					return
				}
			}
		})
	}
	var slow sync.WaitGroup
	slow.Go(func() {
		if status, body, err := ask(http.MethodPost, "/slow", "slow"); status != http.StatusOK || body != "done" {
			t.Errorf("slow: %d %q %v", status, body, err)
		}
	})
	<-running
	stop()
	require.Eventually(t, func() bool {
		w := serve(g.ReadyHandler(), httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return w.Code == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	status, _, err := ask(http.MethodPost, "/", "drained")
	require.NoError(t, err, "it refused before its Drain was over")
	require.Equal(t, http.StatusOK, status)
	load.Wait() // it listens no more, and /slow still runs
	close(release)
	require.NoError(t, <-served)
	slow.Wait()
	require.Positive(t, answered.Load())
	_, _, err = ask(http.MethodPost, "/", "stopped")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestServe_rejects(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	web := &http.Server{Addr: freeAddress(t), ReadHeaderTimeout: time.Minute}
	requireField(t, g.Serve(t.Context(), nil, server.Stop{}), "web")
	requireField(t, g.Serve(t.Context(), web, server.Stop{Drain: -1}), "Stop.Drain")
	requireField(t, g.Serve(t.Context(), web, server.Stop{Timeout: -1}), "Stop.Timeout")
	requireField(t, g.Serve(t.Context(), web, server.Stop{Timeout: server.DefaultSettleTimeout}), "Stop.Timeout")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	err = g.Serve(t.Context(), &http.Server{Addr: taken.Addr().String(), ReadHeaderTimeout: time.Minute}, server.Stop{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

// A listener that fails ends the guard, too, and the error says why.
func TestServe_listenerFails(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	web := &http.Server{Addr: freeAddress(t), ReadHeaderTimeout: time.Minute}
	require.NoError(t, web.Close())
	require.ErrorIs(t, g.Serve(t.Context(), web, server.Stop{}), http.ErrServerClosed)
	_, err := g.Handler(server.Keyed, http.NotFoundHandler())
	require.NoError(t, err)
}

// A checkedStore says whether it answers.
type checkedStore struct {
	store.Store
	err error
}

func (c checkedStore) Check(context.Context) error { return c.err }

func TestReadyHandler(t *testing.T) {
	t.Parallel()
	ask := func(g *server.Guard) string {
		w := serve(g.ReadyHandler(), httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	g := newGuard(t, memstore.New(), server.Config{})
	require.Equal(t, "200 ready\n", ask(g))
	require.NoError(t, g.Shutdown(t.Context()))
	require.Equal(t, "503 stopping\n", ask(g))

	require.Equal(t, "200 ready\n", ask(newGuard(t, checkedStore{Store: memstore.New()}, server.Config{})))
	down := newGuard(t, checkedStore{memstore.New(), errors.New("postgres at 10.0.0.1 is away")}, server.Config{})
	require.Equal(t, "503 the store does not answer; the log has the error\n", ask(down))
}
