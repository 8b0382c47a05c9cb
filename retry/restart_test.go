package retry_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

var errRefused = dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))

// A restarting service refuses connections for a while after start, and counts the requests after that.
type restarting struct {
	back time.Time

	mu       sync.Mutex
	requests []time.Time
}

func (s *restarting) RoundTrip(req *http.Request) (*http.Response, error) {
	if time.Now().Before(s.back) {
		return nil, errRefused
	}
	s.mu.Lock()
	s.requests = append(s.requests, time.Now())
	s.mu.Unlock()
	time.Sleep(10 * ms)
	return status(200)(req)
}

// peak returns how many requests came within 100 ms, at most.
func (s *restarting) peak() (peak int) {
	first := 0
	for i, at := range s.requests {
		for at.Sub(s.requests[first]) >= 100*ms {
			first++
		}
		peak = max(peak, i-first+1)
	}
	return peak
}

// By default all calls outlast a restart, however many there are. When the service is back, they do not come at once: those
// that wait come over the longest wait of the backoff, twice as many of them at most beside twice as many new ones.
func TestSend_allOutlastARestart(t *testing.T) {
	t.Parallel()
	for _, down := range []time.Duration{300 * ms, 3 * time.Second, 10 * time.Second} {
		for _, arrivals := range []int{0, 64} { // per second
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				service := &restarting{back: start.Add(down)}
				c := newClient(t, retry.Config{Transport: service, Profile: retry.Unguarded()})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var calls sync.WaitGroup
				send := func() {
					_, err := c.Send(ctx, post(stubURL))
					require.NoError(t, err)
				}
				waiting := 200
				for range waiting {
					calls.Go(send)
				}
				for i := range arrivals * int((down + 6*time.Second).Seconds()) {
					time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(arrivals))))
					if time.Now().Before(service.back) {
						waiting++
					}
					calls.Go(send)
				}
				calls.Wait()
				rate := float64(arrivals) + float64(waiting)/5
				require.LessOrEqual(t, float64(service.peak()), 2*rate/10, "%v, %d arrivals per second", down, arrivals)
			})
		}
	}
}

// A call that waits alone comes back soon.
func TestSend_aloneInARestart(t *testing.T) {
	t.Parallel()
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			service := &restarting{back: time.Now().Add(300 * ms)}
			_, err := newClient(t, retry.Config{Transport: service, Profile: retry.Unguarded()}).Send(t.Context(), post(stubURL))
			require.NoError(t, err)
			require.Less(t, time.Since(service.back), time.Second)
		})
	}
}

// Refused calls are spread over the time that they have, if that is less than the longest wait.
func TestSend_restartWithinAShortDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &restarting{back: time.Now().Add(300 * ms)}
		c := newClient(t, retry.Config{Transport: service, Profile: retry.Unguarded()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range 200 {
			calls.Go(func() {
				_, err := c.Send(ctx, post(stubURL))
				require.NoError(t, err)
			})
		}
		calls.Wait()
		require.Less(t, service.peak(), 80)
	})
}

// The same holds for every way to make a call, and over real sockets. The service is back when each call was refused.
func TestClient_everyCallOutlastsARestart(t *testing.T) {
	t.Parallel()
	const calls = 150 // more than the budget has
	client := func(c *retry.Client) *http.Client { return &http.Client{Transport: c.RoundTripper()} }
	for name, call := range map[string]func(c *retry.Client, url string) error{
		"Send": func(c *retry.Client, url string) error { _, err := c.Send(context.Background(), post(url)); return err },
		"keyed round trip": func(c *retry.Client, url string) error {
			req, _ := http.NewRequest(http.MethodPost, url, http.NoBody)
			req.Header.Set("Idempotency-Key", "k-1")
			return closed(client(c).Do(req))
		},
		"round trip": func(c *retry.Client, url string) error { return closed(client(c).Post(url, "", nil)) },
		"Do": func(c *retry.Client, url string) error {
			task := retry.Task{Service: "payment", Key: key}
			_, err := retry.Do(context.Background(), c, task, func(context.Context, retry.Attempt) (any, error) {
				return nil, closed(http.Post(url, "", nil))
			}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, listen := refusing(t)
			seen := &refusals{all: make(chan struct{}), left: calls}
			cfg := retry.Config{
				Transport: ownTransport(t), Profile: retry.Unguarded(), Observer: seen, MaxAttempts: 100,
				Backoff: retry.Backoff{Base: ms, Cap: 100 * ms},
			}
			c := newClient(t, cfg)
			var running sync.WaitGroup
			for range calls {
				running.Go(func() { require.NoError(t, call(c, url)) })
			}
			<-seen.all
			srv := &httptest.Server{Listener: listen(), Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
			srv.Start()
			t.Cleanup(srv.Close)
			running.Wait()
		})
	}
}

func closed(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// refusals waits until each call has had an attempt.
type refusals struct {
	recorder
	all  chan struct{}
	mu   sync.Mutex
	left int
}

func (r *refusals) AttemptEnded(_ context.Context, e retry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Number == 1 {
		if r.left--; r.left == 0 {
			close(r.all)
		}
	}
}

// Only what shows that nobody listens is free of the budget. What an overloaded service causes is not.
func TestBudget_refusedConnectionsAreFree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		free bool
	}{
		{"refused", errRefused, true},
		{"refused, as Windows has it", dialError(syscall.Errno(10061)), true},
		{"the proxy is down", &net.OpError{Op: "proxyconnect", Net: "tcp", Err: errRefused}, true},
		{"no socket", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}, true},
		{"refused within a call", fmt.Errorf("first look-up: %w", errRefused), true},
		{"dial times out", dialError(os.ErrDeadlineExceeded), false},
		{"no route", dialError(syscall.EHOSTUNREACH), false},
		{"refused by a service behind the service", &net.OpError{Op: "read", Net: "udp", Err: syscall.ECONNREFUSED}, false},
		{"TLS times out", errors.New("net/http: TLS handshake timeout"), false},
		{"no answer in time", retry.ErrAttemptTimeout, false},
		{"the name server fails", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		{"reset", syscall.ECONNRESET, false},
	} {
		cfg := over(script(fails(tt.err)))
		cfg.Budget = &retry.Budget{Refill: 1e-9}
		failed := failure(t, newClient(t, cfg), post(stubURL))
		require.Equal(t, 4, failed.Attempts, tt.name)
		want := 97.0
		if tt.free {
			want = 100
		}
		require.InDelta(t, want, cfg.Budget.Left("payment"), 0.01, tt.name)

		verdict := retry.Classify[any](nil, fmt.Errorf("inner: %w", failed))
		require.Equal(t, tt.free, verdict.Refused, "a call in a call: %s", tt.name)
	}
}

// A wait that ctx ends gives back only what it took.
func TestBudget_refusedConnectionsGiveNothingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := &retry.Budget{Reserve: 2, Refill: 1e-9}
		cfg := retry.Config{Budget: budget, Rand: exact, Profile: retry.Unguarded(), Transport: script(status(503), fails(errRefused))}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(250*ms, cancel) // in the wait after the second attempt
		failureContext(t, ctx, newClient(t, cfg), post(stubURL))
		require.InDelta(t, 1, budget.Left("payment"), 1e-6)
	})
}

// A budget with an infinite reserve bounds nothing.
func TestBudget_off(t *testing.T) {
	t.Parallel()
	cfg := over(script(status(503)))
	cfg.MaxAttempts = 500
	cfg.Backoff = retry.Backoff{Base: 1, Cap: 1}
	cfg.Budget = &retry.Budget{Reserve: math.Inf(1)}
	failed := failure(t, newClient(t, cfg), post(stubURL))
	require.Equal(t, 500, failed.Attempts)
	require.NotErrorIs(t, failed, retry.ErrBudgetExhausted)
	require.InDelta(t, math.Inf(1), cfg.Budget.Left("payment"), 0)
}

// A service that answers some connections is not down: after a success a refused call comes back as soon as any other.
func TestSend_successEndsTheSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var waits []time.Duration
		c := newClient(t, retry.Config{Profile: retry.Unguarded(), MaxAttempts: 2, Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, errRefused
			}
			return status(200)(req)
		})})
		wait := func() time.Duration {
			start := time.Now()
			_, _ = c.Send(t.Context(), post(stubURL))
			return time.Since(start)
		}
		down.Store(true)
		for range 40 {
			waits = append(waits, wait())
		}
		require.Greater(t, max(waits[20], waits[21], waits[22]), time.Second)
		down.Store(false)
		require.Zero(t, wait())
		down.Store(true)
		require.LessOrEqual(t, wait(), 100*ms)
	})
}

// The budget keeps no account of a service that has all its retries again, whether by success or by time.
func TestBudget_dropsFullAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := new(retry.Budget)
		fail := func(err error) {
			for i := range 2000 {
				cfg := over(script(fails(err)))
				cfg.MaxAttempts, cfg.Budget = 2, budget
				call := post(stubURL)
				call.Service = fmt.Sprint("customer-", i)
				failure(t, newClient(t, cfg), call)
			}
		}
		for _, err := range []error{errBroken, errRefused} {
			fail(err)
			require.Greater(t, budget.Accounts(), 1000)
			time.Sleep(time.Hour)
			call := post(stubURL)
			for i := range 4000 { // others fail now and then
				call.Service = fmt.Sprint(err, i)
				cfg := over(script(fails(err)))
				cfg.MaxAttempts, cfg.Budget = 2, budget
				failure(t, newClient(t, cfg), call)
				time.Sleep(time.Minute)
			}
			require.Less(t, budget.Accounts(), 130)
		}
		time.Sleep(time.Hour)
		for i := range 4000 {
			for _, err := range []error{errBroken, errRefused} {
				require.InDelta(t, 100, budget.Left(fmt.Sprint(err, i)), 0)
			}
		}
		require.Zero(t, budget.Accounts(), "whoever looks finds them full")
		before := budget.Accounts()
		cfg := over(script(status(503), status(200)))
		cfg.Budget = budget
		c, call := newClient(t, cfg), post(stubURL)
		call.Service = "well again"
		for range 10 {
			_, err := c.Send(t.Context(), call)
			require.NoError(t, err)
		}
		require.Equal(t, before, budget.Accounts())
	})
}

// refusing returns the URL of a port that belongs to the test and refuses connections until listen is called.
func refusing(t *testing.T) (url string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("http://127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), func() net.Listener {
		require.NoError(t, syscall.Listen(fd, 1024))
		listener, err := net.FileListener(f)
		require.NoError(t, err)
		return listener
	}
}

// A gRPC channel without a connection fails calls by itself, and dials at its own pace.
func TestGRPCVerdict_refused(t *testing.T) {
	t.Parallel()
	require.True(t, retry.GRPCVerdict("UNAVAILABLE", true, 0, nil).Refused)
	require.False(t, retry.GRPCVerdict("UNAVAILABLE", false, 0, nil).Refused)
	require.False(t, retry.GRPCVerdict("RESOURCE_EXHAUSTED", true, 0, nil).Refused)
}

// When a service goes down, each of its kept connections breaks under the next request. A call does not spend its attempts on
// them all at once: net/http repeats the request twice, and then the client backs off.
func TestSend_deadPool(t *testing.T) {
	t.Parallel()
	const kept = 5
	var busy sync.WaitGroup
	busy.Add(kept)
	var dead atomic.Bool
	url := raw(t, func(conn net.Conn) {
		reader := bufio.NewReader(conn)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if n > 1 {
				_ = conn.Close()
				return
			}
			if !dead.Load() {
				busy.Done()
				busy.Wait()
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	transport := ownTransport(t)
	transport.MaxIdleConnsPerHost = kept
	cfg := over(transport)
	var seen recorder
	cfg.MaxAttempts, cfg.Observer = 10, &seen
	c := newClient(t, cfg)
	var calls sync.WaitGroup
	for range kept {
		calls.Go(func() {
			_, err := c.Send(t.Context(), post(url))
			require.NoError(t, err)
		})
	}
	calls.Wait()
	dead.Store(true)
	seen.attempts = nil
	resp, err := c.Send(t.Context(), post(url))
	require.NoError(t, err)
	require.Equal(t, kept+1, resp.Attempts)
	require.Len(t, seen.attempts, 2)
	require.Equal(t, 3, seen.attempts[0].Deliveries)
	require.Positive(t, seen.attempts[0].Wait)
}
