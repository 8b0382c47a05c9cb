package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// The step outage's callee has twice the capacity that it needs.
const (
	stepInterval  = 5 * time.Millisecond // between calls: 200 per second
	stepSlots     = 4                    // requests at a time, which with
	stepWork      = 10 * time.Millisecond
	stepPatience  = 250 * time.Millisecond // waiting for a slot before 503
	stepCallLimit = 10 * time.Second
)

func stepConditions(e effort) string {
	return fmt.Sprintf("a call every %v, whatever became of the others, with each client's own waits; the callee can do twice as many, and turns away what has waited for %v."+
		" For %v all is well, for %v every request fails at once with 503, and for %v more calls begin. It has recovered at the first of"+
		" three tenths of a second in which all calls that begin succeed, half of them within %v; none is shown as %v.",
		stepInterval, stepPatience, e.before, e.outage, e.after, healthyTime, e.after)
}

// healthyTime is some times what a call takes when all is well.
const healthyTime = 5 * stepWork

func measureSteps(ctx context.Context, e effort) ([]figure, error) {
	figures := make([]figure, len(outageContenders))
	errs := make([]error, len(outageContenders))
	var running sync.WaitGroup
	for i, c := range outageContenders {
		// At the same time: they sleep for the most part, and each has a callee.
		running.Go(func() { figures[i], errs[i] = measureStep(ctx, c, e) })
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// A stepCall is one call around the outage.
type stepCall struct {
	began     time.Duration // since the first
	took      time.Duration
	succeeded bool
}

func measureStep(ctx context.Context, c contender, e effort) (figure, error) {
	callee := &stepCallee{start: time.Now(), from: e.before, to: e.before + e.outage, slots: make(chan struct{}, stepSlots)}
	send, err := c.make(tuning{transport: callee})
	if err != nil {
		return figure{}, err
	}
	calls := callSteadily(ctx, send, callee.start, callee.to+e.after)
	during := slices.DeleteFunc(slices.Clone(calls), func(call stepCall) bool {
		return call.began < callee.from || call.began >= callee.to
	})
	good := 0
	for _, call := range during {
		if call.succeeded {
			good++
		}
	}
	f := figure{Name: c.name + ", step outage", Measures: []measure{
		{Name: "recovered after", Value: recovery(calls, callee.to, e.after).Seconds(), Unit: "s"},
		{Name: "requests per call in it", Value: float64(callee.failed.Load()) / float64(len(during)), Unit: "x"},
		{Name: "calls of it that succeed at last", Value: 100 * float64(good) / float64(len(during)), Unit: "%"},
	}}
	if c.name == ours.name {
		f.Measures[0].Goal = benchkit.AtMost(1)
	}
	return f, nil
}

// callSteadily begins a call at every interval until the end, and waits for all.
func callSteadily(ctx context.Context, send sender, start time.Time, end time.Duration) []stepCall {
	calls := make([]stepCall, end/stepInterval)
	var running sync.WaitGroup
	for i := range calls {
		began := time.Duration(i) * stepInterval
		time.Sleep(time.Until(start.Add(began)))
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, stepCallLimit)
			defer cancel()
			r := send(ctx, message{url: stubURL, body: []byte("x"), key: fmt.Sprint("call-", i)})
			calls[i] = stepCall{began, time.Since(start) - began, r.isSuccess()}
		})
	}
	running.Wait()
	return calls
}

// recovery returns how long after the outage's end calls were as before it;
// most if they never were.
func recovery(calls []stepCall, end, most time.Duration) time.Duration {
	const bucket, needed = 100 * time.Millisecond, 3
	healthy := 0
	for from := time.Duration(0); from < most; from += bucket {
		if !allWell(calls, end+from, end+from+bucket) {
			healthy = 0
			continue
		}
		if healthy++; healthy == needed {
			return from - (needed-1)*bucket
		}
	}
	return most
}

// allWell reports whether the calls that began in the bucket succeeded, and
// half of them in a healthy time.
func allWell(calls []stepCall, from, to time.Duration) bool {
	var took []time.Duration
	for _, call := range calls {
		if call.began < from || call.began >= to {
			continue
		}
		if !call.succeeded {
			return false
		}
		took = append(took, call.took)
	}
	return len(took) > 0 && percentile(took, 0.5) <= inMilliseconds(healthyTime)
}

// A stepCallee is a transport to a service of limited capacity that is down
// for a while.
type stepCallee struct {
	start    time.Time
	from, to time.Duration // the outage
	slots    chan struct{}
	failed   atomic.Int64 // requests during the outage
}

func (s *stepCallee) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	if now := time.Since(s.start); s.from <= now && now < s.to {
		s.failed.Add(1)
		return bodiless(req, http.StatusServiceUnavailable), nil
	}
	patience := time.NewTimer(stepPatience)
	defer patience.Stop()
	select {
	case s.slots <- struct{}{}:
	case <-patience.C:
		return bodiless(req, http.StatusServiceUnavailable), nil
	}
	time.Sleep(stepWork)
	<-s.slots
	return bodiless(req, http.StatusOK), nil
}
