package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func leaksConditions(e effort) string {
	return fmt.Sprintf("%d calls, one after the other, each answered with 503, 503 and 200, over loopback; every answer has 64 KiB."+
		" package retry's budget, which ends such calls after a while, is out of the way."+
		" Goroutines are those of client and callee that are left when idle connections were closed.", e.leakCalls)
}

const pageBytes = 64 << 10

var leakContenders = []contender{retryable, failsafePlain, ours}

// leaks is what calls left behind.
type leaks struct {
	connections int // that were opened
	goroutines  int // that did not end
	bodies      int // that were never closed
}

func measureLeaks(ctx context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, c := range leakContenders {
		left, err := leave(ctx, c, e.leakCalls)
		if err != nil {
			return nil, err
		}
		f := figure{Name: c.name, Measures: []measure{
			{Name: "connections opened", Value: float64(left.connections)},
			{Name: "goroutines left", Value: float64(left.goroutines)},
			{Name: "bodies unclosed", Value: float64(left.bodies)},
		}}
		if c.name == ours.name {
			f.Measures[0].Goal, f.Measures[1].Goal, f.Measures[2].Goal = benchkit.AtMost(2), benchkit.AtMost(0), benchkit.AtMost(0)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// leave makes the calls and counts what is left of them.
func leave(ctx context.Context, c contender, calls int) (leaks, error) {
	callee, connections := faltering()
	defer callee.Close()
	before := runtime.NumGoroutine()
	transport := &bodyCounter{base: &http.Transport{}}
	defer transport.release()
	send, err := c.make(tuning{transport: transport, wait: time.Millisecond, longest: 2 * time.Millisecond, unlimited: true})
	if err != nil {
		return leaks{}, err
	}
	for i := range calls {
		r := send(ctx, message{url: callee.URL, body: []byte("x"), key: fmt.Sprint("call-", i)})
		if !r.isSuccess() {
			return leaks{}, fmt.Errorf("%s: call %d: status %d: %w", c.name, i, r.status, r.err)
		}
	}
	transport.base.CloseIdleConnections()
	return leaks{int(connections.Load()), countLeft(before), transport.countOpen()}, nil
}

// faltering serves two failures and a success in turn, and counts connections.
func faltering() (*httptest.Server, *atomic.Int64) {
	var requests, connections atomic.Int64
	page := bytes.Repeat([]byte("x"), pageBytes)
	callee := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(page)
	}))
	callee.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	callee.Start()
	return callee, &connections
}

// countLeft returns how many goroutines there are above before, once those that
// end have had the time to.
func countLeft(before int) int {
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	return runtime.NumGoroutine() - before
}

// A bodyCounter knows the bodies of answers that nobody has closed yet.
type bodyCounter struct {
	base *http.Transport

	mu   sync.Mutex
	open map[*countedBody]bool
}

func (b *bodyCounter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body := &countedBody{ReadCloser: resp.Body, counter: b}
	resp.Body = body
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = make(map[*countedBody]bool)
	}
	b.open[body] = true
	return resp, nil
}

func (b *bodyCounter) countOpen() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// release closes what a client forgot, so that the next one starts clean.
func (b *bodyCounter) release() {
	b.mu.Lock()
	forgotten := b.open
	b.open = nil
	b.mu.Unlock()
	for body := range forgotten {
		_ = body.ReadCloser.Close()
	}
	b.base.CloseIdleConnections()
}

type countedBody struct {
	io.ReadCloser
	counter *bodyCounter
}

func (c *countedBody) Close() error {
	c.counter.mu.Lock()
	delete(c.counter.open, c)
	c.counter.mu.Unlock()
	return c.ReadCloser.Close()
}
