package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/benchkit"
)

func hopsConditions(effort) string {
	return "One call over three hops on loopback, each with a fresh client of its own, to a leaf that always answers 503; each hop answers 503" +
		" when its call failed. Attempts as by default: 5 and 3; 4 for package retry, whose default is 10. Waits of 1 to 2 ms, so that it ends today."
}

// A hopCase is a contender, and whether its hops pass on what the request that
// they serve says of retries, as a guarded handler does by itself.
type hopCase struct {
	contender
	name     string
	attempts int // 0: the contender's own
	passesOn bool
	goal     *goal
}

var hopCases = []hopCase{
	{retryable, "go-retryablehttp, 5 attempts", 0, false, nil},
	{failsafePlain, "failsafehttp, 3 attempts", 0, false, nil},
	{ours, "retry, 4 attempts, hops that pass nothing on", 4, false, nil},
	{ours, "retry, 4 attempts", 4, true, benchkit.AtMost(4)},
}

func measureHops(ctx context.Context, _ effort) ([]figure, error) {
	var figures []figure
	for _, c := range hopCases {
		hits, err := leafHits(ctx, c)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{Name: c.name, Measures: []measure{
			{Name: "requests at the leaf", Value: float64(hits), Goal: c.goal},
		}})
	}
	return figures, nil
}

// leafHits returns how many requests one call from the root makes of the leaf.
func leafHits(ctx context.Context, c hopCase) (int, error) {
	var hits atomic.Int64
	leaf := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hits.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer leaf.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	next := leaf.URL
	for range 2 {
		send, err := hopSender(c, transport)
		if err != nil {
			return 0, err
		}
		hop := httptest.NewServer(hopHandler(send, next, c.passesOn))
		defer hop.Close()
		next = hop.URL
	}
	send, err := hopSender(c, transport)
	if err != nil {
		return 0, err
	}
	if r := send(ctx, message{url: next, body: []byte("x"), key: "root"}); r.isSuccess() {
		return 0, fmt.Errorf("%s: the call succeeded, and its leaf is dead", c.name)
	}
	return int(hits.Load()), nil
}

// hopSender returns the client of one hop: nobody shares a budget.
func hopSender(c hopCase, transport http.RoundTripper) (sender, error) {
	return c.make(tuning{transport: transport, attempts: c.attempts, wait: time.Millisecond, longest: 2 * time.Millisecond})
}

func hopHandler(send sender, next string, passesOn bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		ctx := r.Context()
		if passesOn {
			ctx = wire.NewContext(ctx, wire.ParseInbound(r.Header.Values))
		}
		if !send(ctx, message{url: next, body: []byte("x"), key: "hop"}).isSuccess() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}
