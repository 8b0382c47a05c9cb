package server_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// writes is a handler that answers with status and total bytes, in pieces of 10. It
// stops at the first error, which it returns in failed.
func writes(status, total int, runs *int, failed *error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		*runs++
		w.WriteHeader(status)
		for left := total; left > 0; left -= 10 {
			if _, *failed = io.WriteString(w, strings.Repeat("x", min(left, 10))); *failed != nil {
				return
			}
		}
	}
}

// An answer of up to 100 bytes is stored. An answer of up to 1600 bytes is served.
var small = server.Config{MaxResponseBytes: 100}

// Between the two caps only the first caller gets the answer.
func TestOversize_servedOnce(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, total := range []int{100, 101, 1600} {
			var runs int
			var failed error
			h := newRoute(t, newGuard(t, memstore.New(), small), effect, writes(http.StatusCreated, total, &runs, &failed))
			requireAnswer(t, send(h, "k", "b"), http.StatusCreated, strings.Repeat("x", total), false)
			for range 2 {
				w := send(h, "k", "b")
				if total > 100 {
					requireCode(t, w, wire.ResponseGone)
				} else {
					requireAnswer(t, w, http.StatusCreated, strings.Repeat("x", total), true)
				}
			}
			require.NoError(t, failed)
			require.Equal(t, 1, runs, "%v, %d bytes", effect, total)
		}
	}
}

// Past the second cap no caller gets the answer. A Transactional run can still
// roll back; the other runs have had their effect.
func TestOversize_served(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		effect server.Effect
		first  wire.Code
		again  wire.Code
		runs   int
		state  server.State
		failed error
	}{
		{server.Transactional, wire.NotStorable, wire.NotStorable, 2, server.StateReleased, server.ErrResponseTooLarge},
		{server.Keyed, wire.ResponseGone, wire.ResponseGone, 1, server.StateCompleted, nil},
		{server.Opaque, wire.ResponseGone, wire.ResponseGone, 1, server.StateCompleted, nil},
	} {
		for _, total := range []int{1601, 5000} {
			var runs int
			var failed error
			seen := new(witness)
			store := memstore.New()
			cfg := small
			cfg.Observer = seen
			h := newRoute(t, newGuard(t, store, cfg), tt.effect, writes(http.StatusCreated, total, &runs, &failed))
			requireCode(t, send(h, "k", "b"), tt.first)
			requireCode(t, send(h, "k", "b"), tt.again)
			require.ErrorIs(t, failed, tt.failed)
			require.Equal(t, tt.runs, runs, "%v, %d bytes", tt.effect, total)
			rec := readRecord(t, store, seen)
			require.Equal(t, tt.state, rec.State)
			require.Empty(t, rec.Answer.Envelope)
			if tt.state == server.StateCompleted {
				require.Equal(t, http.StatusCreated, rec.Answer.Status)
				require.Equal(t, 1, seen.count(server.EventTombstone))
			}
		}
	}
}

// The rows of a Transactional run are rolled back together with its answer.
func TestOversize_rollsBack(t *testing.T) {
	t.Parallel()
	rows := 0
	h := newRoute(t, newGuard(t, memstore.New(), small), server.Transactional, func(w http.ResponseWriter, r *http.Request) {
		if err := memstore.Tx(r.Context()).Do(func() { rows++ }); err != nil {
			panic(err)
		}
		_, err := w.Write(make([]byte, 1601))
		if !errors.Is(err, server.ErrResponseTooLarge) {
			panic(err)
		}
		if _, err = w.Write([]byte("more")); !errors.Is(err, server.ErrResponseTooLarge) {
			panic(err)
		}
	})
	requireCode(t, send(h, "k", "b"), wire.NotStorable)
	require.Zero(t, rows)
}

// An answer with a status that is not stored does not report a finished effect.
func TestOversize_statusNotStored(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		effect server.Effect
		status int
		final  bool
		first  wire.Code
		state  server.State
	}{
		{server.Keyed, http.StatusInternalServerError, false, wire.NotStorable, server.StateReleased},
		{server.Opaque, http.StatusInternalServerError, false, wire.NotStorable, server.StateUnknown},
		{server.Keyed, http.StatusTooManyRequests, false, wire.NotStorable, server.StateReleased},
		{server.Opaque, http.StatusTooManyRequests, false, wire.NotStorable, server.StateReleased},
		{server.Keyed, http.StatusInternalServerError, true, wire.ResponseGone, server.StateCompleted},
		{server.Opaque, http.StatusInternalServerError, true, wire.ResponseGone, server.StateCompleted},
	} {
		var runs int
		var failed error
		seen := new(witness)
		store := memstore.New()
		cfg := small
		cfg.Observer = seen
		next := writes(tt.status, 1601, &runs, &failed)
		h := newRoute(t, newGuard(t, store, cfg), tt.effect, func(w http.ResponseWriter, r *http.Request) {
			if tt.final {
				_ = server.Settle(r.Context(), server.Final())
			}
			next(w, r)
		})
		requireCode(t, send(h, "k", "b"), tt.first)
		require.Equal(t, tt.state, readRecord(t, store, seen).State, "%v, %d", tt.effect, tt.status)
	}
}

// A proxy panics when a Write fails. Its backend's effect still counts.
func TestOversize_reverseProxy(t *testing.T) {
	t.Parallel()
	ran := 0
	backend := serveQuietly(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran++
		for range 100 {
			_, _ = w.Write(make([]byte, 1<<10))
		}
	}))
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	h, err := newGuard(t, memstore.New(), small).Handler(server.Opaque, httputil.NewSingleHostReverseProxy(target))
	require.NoError(t, err)
	front := serveQuietly(t, h)
	for range 2 {
		resp, _ := postTo(t, front.Client(), front.URL, "k", "b")
		require.Equal(t, http.StatusGone, resp.StatusCode)
		require.Equal(t, string(wire.ResponseGone), resp.Header.Get(wire.HeaderCode))
	}
	require.Equal(t, 1, ran)
}

// alone runs the test once more in a process of its own, and reports whether this is that process. The garbage of
// other tests in the heap would falsify the measurement.
func alone(t *testing.T) bool {
	t.Helper()
	const mark = "FANONCE_TEST_ALONE"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v") //nolint:gosec // this test
	child.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "the test ran there")
	return false
}

// liveHeap is the size of the heap after a collection.
func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestOversize_memory(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for _, tt := range []struct {
		megabytes int
		most      int64
		status    int
	}{
		{200, 1 << 20, http.StatusGone}, // first: the other one's garbage must not count
		{16, 17 << 20, http.StatusOK},   // the most that is served
	} {
		var before, during int64
		h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
			before = liveHeap()
			for range tt.megabytes {
				if _, err := w.Write(chunk); err != nil {
					panic(err)
				}
			}
			during = liveHeap()
		})
		w := discard{header: make(http.Header)}
		h.ServeHTTP(&w, ordered("k", "b"))
		require.Equal(t, tt.status, w.status)
		require.LessOrEqual(t, during-before, tt.most, "an answer of %d MB", tt.megabytes)
	}
}

// The buffer is never larger than the largest answer that is served.
func TestOversize_memoryWhileItGrows(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	chunk := make([]byte, 1<<20)
	var before, most int64
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		before = liveHeap()
		for range 20 {
			_, _ = w.Write(chunk)
			most = max(most, liveHeap()-before)
		}
	})
	require.Equal(t, http.StatusGone, send(h, "k", "b").Code)
	require.LessOrEqual(t, most, int64(17<<20))
	require.GreaterOrEqual(t, most, int64(15<<20), "the measure sees the buffer")
}

// discard is a client that discards the answer's body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

var _ http.ResponseWriter = (*discard)(nil)
