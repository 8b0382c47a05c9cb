package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

const (
	chaosWorkers = 64
	chaosSeed    = 1
	// chaosAttempts is few, so that many calls fail and have to be labelled.
	chaosAttempts = 3
	chaosTimeout  = 250 * time.Millisecond // of an attempt; some delays are longer
)

func chaosConditions(e effort) string {
	return fmt.Sprintf("%d calls, %d at a time, over loopback through a proxy that %s. The n-th request of a call meets the same fate with every client."+
		" %d attempts of %v, waits of 2 to 20 ms; package retry's budget is out of the way. The callee is guarded by package server, in memory, and its effects are counted when"+
		" everything that was on its way has arrived.", e.chaosCalls, chaosWorkers, fateText(), chaosAttempts, chaosTimeout)
}

// A chaosCase is a contender that sends the key of the call, or none.
type chaosCase struct {
	contender
	name  string
	keyed bool
}

var chaosCases = []chaosCase{
	{retryable, "go-retryablehttp, without a key", false},
	{failsafePlain, "failsafehttp, without a key", false},
	{retryable, "go-retryablehttp, one key per call", true},
	{failsafePlain, "failsafehttp, one key per call", true},
	{ours, "retry", true},
}

// A census is what became of all calls of one contender.
type census struct {
	succeeded   int
	failed      int
	failedYet   int // failed, for all that their caller knows, and yet took effect
	twice       int // took effect more than once
	wrongly     int // labelled NotSent or Rejected, and yet took effect
	falselyDone int // labelled Completed, and took no effect
	labels      map[retry.Outcome]int
	requests    int
}

func measureChaos(ctx context.Context, e effort) ([]figure, error) {
	var figures []figure
	for _, c := range chaosCases {
		n, err := surviveChaos(ctx, c, e.chaosCalls)
		if err != nil {
			return nil, err
		}
		f := figure{Name: c.name, Measures: []measure{
			{Name: "effects twice", Value: float64(n.twice)},
			{Name: "success without effect", Value: float64(n.falselyDone)},
			{Name: "successes", Value: float64(n.succeeded)},
			{Name: "failures", Value: float64(n.failed)},
			{Name: "of them with effect", Value: float64(n.failedYet)},
			{Name: "requests", Value: float64(n.requests)},
		}}
		if c.name == ours.name {
			f.Measures[0].Goal, f.Measures[1].Goal = benchkit.AtMost(0), benchkit.AtMost(0)
			f.Measures = append(f.Measures,
				measure{Name: "labelled NotSent or Rejected, with effect", Value: float64(n.wrongly), Goal: benchkit.AtMost(0)},
				measure{Name: "NotSent", Value: float64(n.labels[retry.NotSent])},
				measure{Name: "Rejected", Value: float64(n.labels[retry.Rejected])},
				measure{Name: "Unknown", Value: float64(n.labels[retry.Unknown])})
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// surviveChaos makes the calls and compares what the callers were told with
// what took effect.
func surviveChaos(ctx context.Context, c chaosCase, calls int) (census, error) {
	effects := &ledger{count: make(map[int]int)}
	callee, err := newCallee(effects)
	if err != nil {
		return census{}, err
	}
	edge := newNetwork(callee, chaosSeed)
	send, err := c.make(tuning{
		transport: edge.transport(), attempts: chaosAttempts, perAttempt: chaosTimeout,
		wait: 2 * time.Millisecond, longest: 20 * time.Millisecond, unlimited: true,
	})
	if err != nil {
		edge.close()
		return census{}, err
	}
	replies := sendAll(ctx, send, calls, func(call int) message { return chaosMessage(edge.url(), call, c.keyed) })
	edge.close() // and waits for what is late
	return count(replies, effects.count, int(edge.requests.Load())), nil
}

// sendAll makes the calls, chaosWorkers at a time.
func sendAll(ctx context.Context, send sender, calls int, messageOf func(call int) message) []reply {
	replies := make([]reply, calls)
	next := make(chan int)
	var workers sync.WaitGroup
	for range chaosWorkers {
		workers.Go(func() {
			for call := range next {
				replies[call] = send(ctx, messageOf(call))
			}
		})
	}
	for call := range calls {
		next <- call
	}
	close(next)
	workers.Wait()
	return replies
}

func chaosMessage(url string, call int, keyed bool) message {
	m := message{url: url, body: fmt.Appendf(nil, `{"call":%d}`, call)}
	if keyed {
		m.key = fmt.Sprint("call-", call)
	}
	return m
}

// count compares what the callers were told with the number of effects that
// each call had.
func count(replies []reply, effects map[int]int, requests int) census {
	n := census{labels: make(map[retry.Outcome]int), requests: requests}
	for call, r := range replies {
		ran := effects[call] > 0
		if effects[call] > 1 {
			n.twice++
		}
		if r.isSuccess() {
			n.succeeded++
		} else {
			n.failed++
			n.labels[r.outcome]++
			if ran {
				n.failedYet++
			}
		}
		switch {
		case ran && (r.outcome == retry.NotSent || r.outcome == retry.Rejected):
			n.wrongly++
		case !ran && r.outcome == retry.Completed:
			n.falselyDone++
		}
	}
	return n
}

// A ledger counts the effects of each call.
type ledger struct {
	mu    sync.Mutex
	count map[int]int
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Call int }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.count[in.Call]++
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerText)
}

// newCallee returns the callee. A request without a key runs unguarded, as it
// would anywhere.
func newCallee(effects http.Handler) (http.Handler, error) {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		return nil, err
	}
	return guard.Route(server.Route{Effect: server.Keyed, KeyOptional: true}, effects)
}
