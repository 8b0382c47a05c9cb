package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// patience is the longest wait of these tests for an event that must happen soon.
const patience = 20 * time.Second

// dialRaw sends the beginning of a request, as it is.
func dialRaw(tb testing.TB, front *httptest.Server, text string) net.Conn {
	tb.Helper()
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", front.Listener.Addr().String())
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close() })
	require.NoError(tb, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, text)
	require.NoError(tb, err)
	return conn
}

// answerOf reads the answer to a raw request, and requires the server to close the connection.
func answerOf(tb testing.TB, conn net.Conn) *http.Response {
	tb.Helper()
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	require.NoError(tb, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.NoError(tb, err)
	_, err = read.ReadByte()
	require.ErrorIs(tb, err, io.EOF, "the connection stays open")
	return resp
}

// half is a request of which half of the body comes.
func half(key string) string {
	if key != "" {
		key = "Idempotency-Key: " + key + "\r\n"
	}
	return "POST /orders HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 100\r\n\r\nhalf"
}

func requireHeaders(tb testing.TB, resp *http.Response, code wire.Code) {
	tb.Helper()
	s, _ := code.Situation()
	require.Equal(tb, string(code), resp.Header.Get(wire.HeaderCode))
	require.Equal(tb, s.Status, resp.StatusCode)
	require.Equal(tb, s.Retryable, resp.Header.Get(wire.HeaderShouldRetry) == "true")
	require.Equal(tb, s.RetryAfter, resp.Header.Get(wire.HeaderRetryAfter) != "")
}

// front serves a guarded handler over sockets, by HTTP/2 too.
func front(tb testing.TB, s store.Store, cfg server.Config, next http.HandlerFunc) (*httptest.Server, *server.Guard) {
	tb.Helper()
	g := newGuard(tb, s, cfg)
	web := httptest.NewUnstartedServer(newRoute(tb, g, server.Keyed, next))
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.EnableHTTP2 = true
	tb.Cleanup(web.Close)
	return web, g
}

func TestBodyTimeout(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	s := &flaky{TxStore: memstore.New()}
	web, _ := front(t, s, server.Config{BodyTimeout: 100 * time.Millisecond}, answer(http.StatusOK, &ran))
	web.Start()
	start := time.Now()
	requireHeaders(t, answerOf(t, dialRaw(t, web, half("k"))), wire.BodyTimeout)
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	requireHeaders(t, answerOf(t, dialRaw(t, web,
		"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")), wire.BodyTimeout)
	require.Zero(t, ran.Load()+s.asked.Load(), "nothing is stored")
}

func TestBodyTimeout_http2(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	s := &flaky{TxStore: memstore.New()}
	web, _ := front(t, s, server.Config{BodyTimeout: 100 * time.Millisecond}, answer(http.StatusOK, &ran))
	web.StartTLS()
	slow, end := io.Pipe()
	defer end.Close()
	go func() { _, _ = io.WriteString(end, "half") }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, slow)
	require.NoError(t, err)
	r.Header.Set(wire.HeaderKey, "k")
	resp, err := web.Client().Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
	requireHeaders(t, resp, wire.BodyTimeout)
	require.Zero(t, ran.Load()+s.asked.Load(), "nothing is stored")

	again, _ := postTo(t, web.Client(), web.URL, "k", "b")
	require.Equal(t, http.StatusOK, again.StatusCode, "the connection is as good as before")
}

// The server's own timeout counts if it is shorter.
func TestBodyTimeout_readTimeoutOfTheServer(t *testing.T) {
	t.Parallel()
	web, _ := front(t, memstore.New(), server.Config{BodyTimeout: time.Hour}, func(http.ResponseWriter, *http.Request) {})
	web.Config.ReadTimeout = 100 * time.Millisecond
	web.Start()
	requireHeaders(t, answerOf(t, dialRaw(t, web, half("k"))), wire.BodyTimeout)
}

// The handler has its own time, and so has the next request of the connection.
func TestBodyTimeout_isClearedForTheHandler(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	for _, tls := range []bool{false, true} {
		var gone atomic.Bool
		web, _ := front(t, memstore.New(), server.Config{BodyTimeout: timeout}, func(_ http.ResponseWriter, r *http.Request) {
			outer, _ := r.Context().Value(outerKey{}).(context.Context)
			select {
			case <-outer.Done():
				gone.Store(true)
			case <-time.After(4 * timeout):
			}
		})
		guarded := web.Config.Handler
		web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guarded.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outerKey{}, r.Context())))
		})
		if tls {
			web.StartTLS()
		} else {
			web.Start()
		}
		for n := range 3 {
			resp, _ := postTo(t, web.Client(), web.URL, fmt.Sprint("k-", n), "b")
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
		require.False(t, gone.Load(), "the deadline ended the request")
	}
}

type outerKey struct{}

// deadlines remembers what its read deadline was set to.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// The guard sets the deadline before it reads, and clears it before the handler runs. It
// sets none for a request without a body.
func TestBodyTimeout_deadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		g := newGuard(t, memstore.New(), server.Config{BodyTimeout: 7 * time.Second})
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {
			require.Equal(t, []time.Time{time.Now().Add(7 * time.Second), {}}, w.set)
		})
		h.ServeHTTP(w, ordered("k", "b"))
		require.Equal(t, http.StatusOK, w.Code)
		require.Len(t, w.set, 2)

		w.set = nil
		r := ordered("k-2", "")
		r.Body, r.ContentLength = http.NoBody, 0
		newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {}).ServeHTTP(w, r)
		require.Empty(t, w.set)
	})
}

// A request that is refused before its body is read does not hold its connection.
func TestBodyTimeout_refusedRequest(t *testing.T) {
	t.Parallel()
	web, _ := front(t, memstore.New(), server.Config{BodyTimeout: time.Hour}, func(http.ResponseWriter, *http.Request) {})
	web.Start()
	requireHeaders(t, answerOf(t, dialRaw(t, web, half(""))), wire.KeyMissing)
	large := strings.Replace(half("k"), "Content-Length: 100", fmt.Sprint("Content-Length: ", server.DefaultMaxRequestBytes+1), 1)
	requireHeaders(t, answerOf(t, dialRaw(t, web, large)), wire.BodyTooLarge)
}

// A refused request whose body has come keeps its connection.
func TestBodyTimeout_refusedRequestKeepsItsConnection(t *testing.T) {
	t.Parallel()
	web, _ := front(t, memstore.New(), server.Config{}, func(http.ResponseWriter, *http.Request) {})
	var opened atomic.Int64
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	web.Start()
	for range 3 {
		resp, _ := postTo(t, web.Client(), web.URL, "two keys, in one line", strings.Repeat("x", 100<<10))
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	}
	require.EqualValues(t, 1, opened.Load())
}

// A middleware that hides the connection makes the deadline useless. The log says so once.
func TestBodyTimeout_hiddenConnection(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	web, _ := front(t, memstore.New(), server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(http.ResponseWriter, *http.Request) {})
	guarded := web.Config.Handler
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
	web.Start()
	for n := range 3 {
		resp, _ := postTo(t, web.Client(), web.URL, fmt.Sprint("k-", n), "b")
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Equal(t, 1, strings.Count(log.String(), "no read deadline"), log.String())
}

// A syncBuffer takes what a server logs.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// No run has begun for a request whose body is still coming. So neither the
// guard's Shutdown nor the web server's waits for it.
func TestShutdown_doesNotWaitForBodies(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{false, true} {
		shutdownWithBodies(t, tls, true)
		shutdownWithBodies(t, tls, false)
	}
}

func shutdownWithBodies(t *testing.T, tls, guardFirst bool) {
	t.Helper()
	web, g := front(t, memstore.New(), server.Config{BodyTimeout: time.Hour}, func(http.ResponseWriter, *http.Request) {})
	reading := make(chan struct{}, 20)
	guarded := web.Config.Handler
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			r.Body = &announced{ReadCloser: r.Body, reading: reading}
		}
		guarded.ServeHTTP(w, r)
	})
	codes := make(chan string, 20)
	if tls {
		web.StartTLS()
	} else {
		web.Start()
	}
	first, _ := postTo(t, web.Client(), web.URL, "first", "b") // under HTTP/2 all other requests share its connection
	require.Equal(t, http.StatusOK, first.StatusCode)
	for n := range 20 {
		body, end := io.Pipe()
		defer end.Close()
		go func() { _, _ = io.WriteString(end, "half") }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, body)
		require.NoError(t, err)
		r.Header.Set(wire.HeaderKey, fmt.Sprint("k-", n))
		go func() {
			resp, err := web.Client().Do(r)
			if err != nil {
				codes <- err.Error()
				return
			}
			resp.Body.Close()
			codes <- resp.Header.Get(wire.HeaderCode)
		}()
	}
	for range 20 {
		<-reading
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if guardFirst {
		require.NoError(t, g.Shutdown(ctx))
	} else {
		require.NoError(t, web.Config.Shutdown(ctx))
	}
	for range 20 {
		require.Equal(t, string(wire.NotClaimed), <-codes)
	}
	require.NoError(t, web.Config.Shutdown(ctx))
	require.NoError(t, g.Shutdown(ctx))
}

// announced tells when its body is read for the second time: then half of it is there.
type announced struct {
	io.ReadCloser

	reads   int
	reading chan<- struct{}
}

func (a *announced) Read(p []byte) (int, error) {
	if a.reads++; a.reads == 2 {
		a.reading <- struct{}{}
	}
	return a.ReadCloser.Read(p)
}

// A body that begins after Shutdown is not asked for either.
func TestShutdown_laterBody(t *testing.T) {
	t.Parallel()
	web, g := front(t, memstore.New(), server.Config{BodyTimeout: time.Hour}, func(http.ResponseWriter, *http.Request) {})
	web.Start()
	require.NoError(t, g.Shutdown(t.Context()))
	requireHeaders(t, answerOf(t, dialRaw(t, web, half("k"))), wire.NotClaimed)
}

// One tenant's bodies leave memory for the bodies of the others.
func TestMaxBufferedBytes_scopeTakesAQuarter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		all, most int64
		scope     server.ScopeFunc
		share     int // bodies of 100 bytes that one scope may have
	}{
		{"a quarter", 1200, 100, tenant, 3},
		{"one body", 300, 100, tenant, 1},
		{"one body is all there is", 100, 100, tenant, 1},
		{"the only scope", 1200, 100, server.Unscoped, 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, err := server.NewGuard(memstore.New(), tt.scope, server.Config{MaxBufferedBytes: tt.all, MaxRequestBytes: tt.most})
			require.NoError(t, err)
			var ran atomic.Int64
			end := make(chan struct{})
			h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {
				ran.Add(1)
				<-end
			})
			body := strings.Repeat("x", 100)
			for n := range tt.share {
				go send(h, fmt.Sprint("k-", n), body, "X-Tenant", "greedy")
			}
			synctest.Wait()
			require.EqualValues(t, tt.share, ran.Load(), tt.name)
			requireCode(t, send(h, "one-more", body, "X-Tenant", "greedy"), wire.NotClaimed)
			go send(h, "no-body", "", "X-Tenant", "greedy") // needs no memory
			synctest.Wait()
			require.EqualValues(t, tt.share+1, ran.Load(), tt.name)
			if int64(100*tt.share) < tt.all {
				go send(h, "k", body, "X-Tenant", "modest")
				synctest.Wait()
				require.EqualValues(t, tt.share+2, ran.Load(), tt.name)
			}
			close(end)
			synctest.Wait()
			require.Equal(t, http.StatusOK, send(h, "one-more", body, "X-Tenant", "greedy").Code, "what was held is free again")
		})
	}
}

// A service that accepts bodies of any length survives a client that only
// announces a large length.
func TestMaxRequestBytes_largestNumber(t *testing.T) {
	t.Parallel()
	h := newRoute(t, newGuard(t, memstore.New(), server.Config{MaxRequestBytes: math.MaxInt64}), server.Keyed,
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	body := strings.Repeat("x", 200<<10)
	for _, tt := range []struct {
		announced int64
		code      wire.Code
	}{
		{-1, ""}, {int64(len(body)), ""}, {1, ""}, {math.MaxInt64, wire.BodyIncomplete}, {math.MaxInt64 - 1, wire.BodyIncomplete},
	} {
		r := ordered(fmt.Sprint("k", tt.announced), body)
		r.ContentLength = tt.announced
		w := serve(h, r)
		if tt.code != "" {
			requireCode(t, w, tt.code)
			continue
		}
		requireAnswer(t, w, http.StatusOK, body, false)
	}
}

// Bodies that do not end hold at most MaxBufferedBytes of memory.
func TestMaxBufferedBytes(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	const size = 1 << 20
	cfg := server.Config{MaxBufferedBytes: 8 << 20, BodyTimeout: time.Hour}
	g := newGuard(t, memstore.New(), cfg)
	var runs atomic.Int64
	h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { runs.Add(1) })
	before := liveHeap()
	withheld := make(chan struct{})
	var refused, ended sync.WaitGroup
	var held atomic.Int64
	for n := range 40 {
		refused.Add(1)
		body := &withholding{left: size - 1, end: withheld, held: func() { held.Add(1); refused.Done() }}
		ended.Go(func() {
			r := ordered(fmt.Sprint("k-", n), "")
			r.Body, r.ContentLength = body, size
			w := serve(h, r)
			if w.Code != http.StatusOK {
				requireCode(t, w, wire.NotClaimed)
				refused.Done()
			}
		})
	}
	refused.Wait() // each body is refused or held
	require.GreaterOrEqual(t, held.Load(), int64(4))
	require.LessOrEqual(t, held.Load(), int64(8))
	require.LessOrEqual(t, liveHeap()-before, int64(10<<20))
	close(withheld)
	ended.Wait()
	require.Equal(t, held.Load(), runs.Load())

	for n := range 20 { // all memory is free again
		r := ordered(fmt.Sprint("later-", n), strings.Repeat("x", size))
		require.Equal(t, http.StatusOK, serve(h, r).Code)
	}
}

// withholding is a body whose last byte does not come until end is closed.
type withholding struct {
	left int
	end  <-chan struct{}
	held func()
	last bool
}

func (b *withholding) Read(p []byte) (int, error) {
	switch {
	case b.last:
		return 0, io.EOF
	case b.left == 0:
		b.held()
		<-b.end
		b.last = true
		return copy(p, "x"), nil
	default:
		n := min(b.left, len(p))
		clear(p[:n])
		b.left -= n
		return n, nil
	}
}

func (b *withholding) Close() error { return nil }

// The largest number works like any other.
func TestMaxRequestBytes_largest(t *testing.T) {
	t.Parallel()
	web, _ := front(t, memstore.New(), server.Config{MaxRequestBytes: math.MaxInt64}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	web.Start()
	for _, length := range []int{0, 1, 511, 512, 513, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000} {
		for _, chunked := range []bool{false, true} {
			want := strings.Repeat("x", length)
			var body io.Reader = strings.NewReader(want)
			if chunked {
				body = io.MultiReader(body)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, body)
			require.NoError(t, err)
			r.Header.Set(wire.HeaderKey, fmt.Sprintf("%d-%t", length, chunked))
			resp, err := web.Client().Do(r)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, len(want), len(got))
		}
	}
}

// The cap is exact to the byte, whatever length is announced.
func TestMaxRequestBytes(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 100, 512, 70_000} {
		h := newRoute(t, newGuard(t, memstore.New(), server.Config{MaxRequestBytes: int64(most)}), server.Keyed,
			func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
		for _, tt := range []struct {
			length, announced int
			code              wire.Code
		}{
			{most, most, ""},
			{most, -1, ""},
			{most + 1, -1, wire.BodyTooLarge},
			{most + 1, most + 1, wire.BodyTooLarge},
			{most, most - 1, ""}, // a middleware made it longer, such as one that unpacks it
			{most + 1, most, wire.BodyTooLarge},
			{most - 1, most, wire.BodyIncomplete},
		} {
			r := ordered(fmt.Sprintf("%d:%d", tt.length, tt.announced), strings.Repeat("x", tt.length))
			r.ContentLength = int64(tt.announced)
			w := serve(h, r)
			if tt.code != "" {
				requireCode(t, w, tt.code)
				continue
			}
			require.Equal(t, http.StatusOK, w.Code, "%+v", tt)
			require.Equal(t, tt.length, w.Body.Len())
		}
	}
}
