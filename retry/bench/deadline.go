package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func deadlineConditions(e effort) string {
	return fmt.Sprintf("300 ms left, and the callee answers 429 with Retry-After: 5 at once, over loopback. %d calls each: the median"+
		" of the time until the caller knows, and in how many it sees the 429.", e.deadlineCalls)
}

// timeLeft is what a call has left when it is made.
const timeLeft = 300 * time.Millisecond

var deadlineContenders = []contender{retryable, failsafePlain, ours}

func measureDeadline(ctx context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, c := range deadlineContenders {
		took, visible, err := turnedAway(ctx, c, e.deadlineCalls, timeLeft)
		if err != nil {
			return nil, err
		}
		f := figure{Name: c.name, Measures: []measure{
			{Name: "back after", Value: percentile(took, 0.5), Unit: "ms"},
			{Name: "sees the 429 in", Value: 100 * float64(visible) / float64(len(took)), Unit: "%"},
		}}
		if c.name == ours.name {
			f.Measures[0].Goal, f.Measures[1].Goal = benchkit.Below(5), benchkit.AtLeast(100)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// turnedAway returns how long each call took, and how many knew of the 429. Each call has
// the time left, which is shorter than the callee's Retry-After.
func turnedAway(ctx context.Context, c contender, calls int, left time.Duration) (took []time.Duration, visible int, err error) {
	callee := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer callee.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	send, err := c.make(tuning{transport: transport})
	if err != nil {
		return nil, 0, err
	}
	for i := range calls {
		start := time.Now()
		if r := turnAway(ctx, send, message{url: callee.URL, body: []byte("x"), key: fmt.Sprint("call-", i)}, left); r.status == http.StatusTooManyRequests {
			visible++
		}
		took = append(took, time.Since(start))
	}
	return took, visible, nil
}

func turnAway(ctx context.Context, send sender, m message, left time.Duration) reply {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return send(ctx, m)
}
