package hosting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
)

// A fakeService has one run that ends by itself or when it is drained.
type fakeService struct {
	began    chan struct{}
	let      chan struct{} // the run ends when this is closed
	drained  chan struct{} // closed by Drain
	drainErr error

	mu     sync.Mutex
	events []string
}

func newFakeService() *fakeService {
	return &fakeService{began: make(chan struct{}, 1), let: make(chan struct{}), drained: make(chan struct{})}
}

func (f *fakeService) note(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event)
}

func (f *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.began <- struct{}{}
	if r.URL.Path == "/body" {
		_, err := io.ReadAll(r.Body)
		if err != nil {
			f.note("body cut")
		}
		return
	}
	select {
	case <-f.let:
	case <-f.drained:
	}
	f.note("run")
	_, _ = fmt.Fprint(w, "done")
}

func (f *fakeService) Drain(context.Context) error {
	f.note("drain")
	close(f.drained)
	return f.drainErr
}

func (f *fakeService) Close() { f.note("close") }

// serveFake runs s until end is called, which returns Run's error.
func serveFake(t *testing.T, s *fakeService, times stopTimes) (address string, end func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, listener, readTimeout, func(context.Context) (Service, error) { return s, nil }, times)
	}()
	t.Cleanup(stop)
	return listener.Addr().String(), func() error { stop(); return <-ended }
}

// get sends a request, and returns the answer's body, or the error's text.
func get(url string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	return answer
}

// untilServed waits until the service is ready.
func untilServed(t *testing.T, s *fakeService, address, path string) <-chan string {
	t.Helper()
	for {
		answer := get("http://" + address + path)
		select {
		case <-s.began:
			return answer
		case text := <-answer:
			if strings.Contains(text, "not ready") {
				continue
			}
			<-s.began // and it has ended already
			again := make(chan string, 1)
			again <- text
			return again
		}
	}
}

func TestRun_requestsEndByThemselves(t *testing.T) {
	t.Parallel()
	s := newFakeService()
	address, end := serveFake(t, s, stopTimes{requests: time.Minute, runs: time.Minute, answers: time.Minute})
	answer := untilServed(t, s, address, "/")
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond, "it takes new requests")
	close(s.let)
	require.NoError(t, <-ended)
	require.Equal(t, "done", <-answer)
	require.Equal(t, []string{"run", "drain", "close"}, s.events)
}

// A run that goes on is ended by the service, and answered before the service closes.
func TestRun_drainsWhatGoesOn(t *testing.T) {
	t.Parallel()
	s := newFakeService()
	address, end := serveFake(t, s, stopTimes{requests: 50 * time.Millisecond, runs: time.Minute, answers: time.Minute})
	answer := untilServed(t, s, address, "/")
	require.NoError(t, end())
	require.Equal(t, "done", <-answer)
	require.Equal(t, []string{"drain", "run", "close"}, s.events)
}

// A body that does not come delays a stop by the times of requests and answers. The
// stop succeeds.
func TestRun_slowBody(t *testing.T) {
	t.Parallel()
	s := newFakeService()
	address, end := serveFake(t, s, stopTimes{requests: 50 * time.Millisecond, runs: time.Minute, answers: 50 * time.Millisecond})
	close(s.let)
	require.Equal(t, "done", <-untilServed(t, s, address, "/"))
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
	require.NoError(t, err)
	<-s.began
	defer conn.Close()
	require.NoError(t, end())
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Contains(t, s.events, "close")
}

func TestRun_drainFails(t *testing.T) {
	t.Parallel()
	s := newFakeService()
	s.drainErr = errors.New("a run goes on")
	address, end := serveFake(t, s, stopTimes{requests: time.Minute, runs: time.Minute, answers: time.Minute})
	close(s.let)
	require.Equal(t, "done", <-untilServed(t, s, address, "/"))
	require.ErrorIs(t, end(), s.drainErr)
	require.Equal(t, "close", s.events[len(s.events)-1])
}

// The times of a stop fit the guard's, and the platform's.
func TestStopTimes(t *testing.T) {
	t.Parallel()
	total := defaultStop.requests + defaultStop.runs + defaultStop.answers
	require.Less(t, total, 30*time.Second)
	require.GreaterOrEqual(t, defaultStop.requests+defaultStop.runs, HandlerTimeout+server.DefaultSettleTimeout)
}
