package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// curveWorkers is how many calls are under way at once.
const curveWorkers = 32

// outageSeed shuffles which requests fail; any other would do.
const outageSeed = 1

func outageConditions(e effort) string {
	return fmt.Sprintf("Random failures: %d calls through each client, %d at a time, to a stub that takes 1 ms and answers the given part of every thousand requests,"+
		" in random order, with 503. Everybody waits 1 ms, doubled up to 8 ms, and keeps its own number of attempts and its own jitter. package retry begins with its whole reserve of 100 retries."+
		" Step outage: %s",
		e.curveCalls, curveWorkers, stepConditions(e))
}

var outageContenders = []contender{
	noRetries, retryable, failsafePlain, failsafeBudget, awsQuotaModel, grpcThrottleModel, ours,
}

// curveGoals are those of package retry, by the percentage of failures: of
// success in percent, and of requests per call.
var curveGoals = map[int]struct{ success, load *goal }{
	10:  {benchkit.AtLeast(99), benchkit.AtMost(1.12)},
	100: {nil, benchkit.AtMost(1.10)},
}

func measureOutages(ctx context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, failing := range []int{0, 1, 10, 30, 50, 100} {
		for _, c := range outageContenders {
			f, err := measureCurve(ctx, c, failing, e.curveCalls)
			if err != nil {
				return nil, err
			}
			figures = append(figures, f)
		}
	}
	steps, err := measureSteps(ctx, e)
	return append(figures, steps...), err
}

// measureCurve makes the calls while the given percentage of requests fails.
func measureCurve(ctx context.Context, c contender, failing, calls int) (figure, error) {
	callee := newRandomCallee(failing)
	send, err := c.make(tuning{transport: callee, wait: time.Millisecond, longest: 8 * time.Millisecond})
	if err != nil {
		return figure{}, err
	}
	succeeded, took := callMany(ctx, send, calls)
	f := figure{Name: fmt.Sprintf("%s, %d %% fail", c.name, failing), Measures: []measure{
		{Name: "success", Value: 100 * float64(succeeded) / float64(calls), Unit: "%"},
		{Name: "requests per call", Value: float64(callee.requests.Load()) / float64(calls), Unit: "x"},
		{Name: "p50", Value: percentile(took, 0.5), Unit: "ms"},
		{Name: "p99", Value: percentile(took, 0.99), Unit: "ms"},
	}}
	if goals, ok := curveGoals[failing]; ok && c.name == ours.name {
		f.Measures[0].Goal, f.Measures[1].Goal = goals.success, goals.load
	}
	return f, nil
}

// callMany makes the calls, curveWorkers at a time.
func callMany(ctx context.Context, send sender, calls int) (succeeded int64, took []time.Duration) {
	var next, good atomic.Int64
	var workers sync.WaitGroup
	took = make([]time.Duration, calls)
	for range curveWorkers {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(calls); i = next.Add(1) {
				start := time.Now()
				if send(ctx, message{url: stubURL, body: []byte("x"), key: fmt.Sprint("call-", i)}).isSuccess() {
					good.Add(1)
				}
				took[i-1] = time.Since(start)
			}
		})
	}
	workers.Wait()
	return good.Load(), took
}

// A randomCallee is a transport to a service of which requests fail at random:
// the n-th request fares alike with every client. Exactly the given part of
// every thousand fails, since with thousands of calls the luck of a seed alone
// would move success by as much as it is from its goal.
type randomCallee struct {
	requests atomic.Int64

	mu   sync.Mutex
	rng  *rand.Rand
	deck []bool // of a thousand; true fails
	next int
}

func newRandomCallee(failing int) *randomCallee {
	c := &randomCallee{rng: rand.New(rand.NewPCG(outageSeed, uint64(failing))), deck: make([]bool, 1000)}
	for i := range failing * len(c.deck) / 100 {
		c.deck[i] = true
	}
	return c
}

func (r *randomCallee) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	r.requests.Add(1)
	time.Sleep(time.Millisecond)
	if r.fails() {
		return bodiless(req, http.StatusServiceUnavailable), nil
	}
	return bodiless(req, http.StatusOK), nil
}

// fails draws the next card, and shuffles when none is left.
func (r *randomCallee) fails() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.next % len(r.deck)
	if at == 0 {
		r.rng.Shuffle(len(r.deck), func(i, j int) { r.deck[i], r.deck[j] = r.deck[j], r.deck[i] })
	}
	r.next++
	return r.deck[at]
}

func bodiless(req *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}
