package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/retry"
)

const (
	restartBefore = 500 * time.Millisecond // all is well for that long
	restartAfter  = 5500 * time.Millisecond
	restartLimit  = 30 * time.Second // of a call
	restartWindow = 100 * time.Millisecond
	restartSpread = 5 * time.Second // over which those who wait may come back
)

func restartConditions(e effort) string {
	return fmt.Sprintf("A server on loopback closes its listener and its connections, and listens again at the same address after the given time."+
		" Calls begin evenly spaced, so that %d begin in that time; each has %v and the default configuration."+
		" They are those of one client or of several, which share nothing, as in several processes: each client has the given number of callers that wait."+
		" The goal of the fullest %v after that is twice the rate r + waiting callers / %v, where r is the rate at which calls begin.",
		e.restartCallers, restartLimit, restartWindow, restartSpread)
}

func measureRestarts(ctx context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, down := range e.restarts {
		for _, callers := range []int{10, 64, 1000} {
			f, err := measureRestart(ctx, ours, max(e.restartCallers/callers, 1), e.restartCallers, down)
			if err != nil {
				return nil, err
			}
			f.Name = fmt.Sprintf("retry, %d callers in a client, down for %v", min(callers, e.restartCallers), down)
			f.Measures[0].Goal, f.Measures[1].Goal = benchkit.AtLeast(100), benchkit.AtMost(1)
			figures = append(figures, f)
		}
		f, err := measureRestart(ctx, retryable, 1, e.restartCallers, down)
		if err != nil {
			return nil, err
		}
		f.Name = fmt.Sprintf("go-retryablehttp, down for %v", down)
		figures = append(figures, f)
	}
	return figures, nil
}

// measureRestart makes calls through the clients before, during and after the restart of a server.
func measureRestart(ctx context.Context, c contender, clients, callers int, down time.Duration) (figure, error) {
	callee, err := newRestartCallee()
	if err != nil {
		return figure{}, err
	}
	defer callee.stop()
	senders := make([]sender, clients)
	for i := range senders {
		transport := retry.NewTransport()
		defer transport.CloseIdleConnections()
		if senders[i], err = c.make(tuning{transport: transport}); err != nil {
			return figure{}, err
		}
	}
	restarted := make(chan error, 1)
	go func() { restarted <- callee.restart(restartBefore, down) }()
	calls, good := callEvenly(ctx, senders, callee.url, down/time.Duration(callers), restartBefore+down+restartAfter)
	if err := <-restarted; err != nil {
		return figure{}, err
	}
	var late []time.Duration
	waiting := 0
	for _, call := range calls {
		if call.began.Before(callee.back) && call.ended.After(callee.back) {
			waiting++
			late = append(late, call.ended.Sub(callee.back))
		}
	}
	rate := float64(callers) / down.Seconds()
	goal := 2 * (rate + float64(waiting)/restartSpread.Seconds()) * restartWindow.Seconds()
	peak := callee.peak()
	return figure{Measures: []measure{
		{Name: "success", Value: 100 * float64(good) / float64(len(calls)), Unit: "%"},
		{Name: "fullest window by the goal", Value: float64(peak) / goal, Unit: "x"},
		{Name: "requests in it", Value: float64(peak)},
		{Name: "waiting callers", Value: float64(waiting)},
		{Name: "half of them are answered after", Value: percentile(late, 0.5) / 1000, Unit: "s"},
	}}, nil
}

type restartCall struct{ began, ended time.Time }

// callEvenly begins a call at every interval until the end, through one sender after the other, and waits for all.
func callEvenly(ctx context.Context, senders []sender, url string, interval, end time.Duration) ([]restartCall, int64) {
	calls := make([]restartCall, end/interval)
	var good atomic.Int64
	var running sync.WaitGroup
	start := time.Now()
	for i := range calls {
		time.Sleep(time.Until(start.Add(time.Duration(i) * interval)))
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, restartLimit)
			defer cancel()
			calls[i].began = time.Now()
			if senders[i%len(senders)](ctx, message{url: url, body: []byte("x"), key: fmt.Sprint("call-", i)}).isSuccess() {
				good.Add(1)
			}
			calls[i].ended = time.Now()
		})
	}
	running.Wait()
	return calls, good.Load()
}

// A restartCallee is a server on loopback that can go away for a while.
type restartCallee struct {
	url    string
	server *http.Server
	back   time.Time // when it listened again

	mu       sync.Mutex
	requests []time.Time
}

func newRestartCallee() (*restartCallee, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &restartCallee{url: "http://" + listener.Addr().String()}
	c.serve(listener)
	return c, nil
}

func (c *restartCallee) serve(listener net.Listener) {
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: restartLimit}
	go func() { _ = c.server.Serve(listener) }()
}

func (c *restartCallee) ServeHTTP(http.ResponseWriter, *http.Request) {
	c.mu.Lock()
	c.requests = append(c.requests, time.Now())
	c.mu.Unlock()
}

// restart goes down after a while, and returns when it is back.
func (c *restartCallee) restart(after, down time.Duration) error {
	time.Sleep(after)
	_ = c.server.Close()
	time.Sleep(down)
	listener, err := net.Listen("tcp", c.url[len("http://"):])
	if err != nil {
		return err
	}
	c.back = time.Now()
	c.serve(listener)
	return nil
}

func (c *restartCallee) stop() { _ = c.server.Close() }

// peak returns the most requests that came within one window after the restart.
func (c *restartCallee) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.requests, time.Time.Compare)
	most, first := 0, 0
	for i, at := range c.requests {
		if at.Before(c.back) {
			first = i + 1
			continue
		}
		for at.Sub(c.requests[first]) >= restartWindow {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
