package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A fate is what befalls one request.
type fate int

const (
	passes fate = iota
	refused
	dropped
	answerDropped
	answerCut
	delayed
	unavailable
	throttled
)

// fates are the harms, with the part of all requests that each befalls in
// percent. Many are refused or turned away: after an attempt that took effect,
// these are what tempts a client to say that a call had none.
var fates = []struct {
	fate    fate
	percent int
	text    string
}{
	{refused, 6, "refuses connections"},
	{dropped, 4, "drops requests"},
	{answerDropped, 7, "drops answers"},
	{answerCut, 7, "cuts answers in the middle"},
	{delayed, 4, "delays requests by up to half a second"},
	{unavailable, 4, "answers 503"},
	{throttled, 10, "answers 429"},
}

func fateText() string {
	var all []string
	for _, f := range fates {
		all = append(all, fmt.Sprintf("%s (%d %%)", f.text, f.percent))
	}
	return strings.Join(all, ", ")
}

// A network is a bad one between callers and one callee. Requests that are on
// their way arrive, whether their callers still wait or not.
type network struct {
	callee   http.Handler
	seed     uint64
	requests atomic.Int64 // that callers sent
	proxy    *httptest.Server
	base     *http.Transport

	mu   sync.Mutex
	seen map[string]uint64 // requests by body
}

// newNetwork opens a network on loopback. close frees it.
func newNetwork(callee http.Handler, seed uint64) *network {
	n := &network{callee: callee, seed: seed, seen: make(map[string]uint64)}
	n.base = &http.Transport{MaxIdleConns: chaosWorkers, MaxIdleConnsPerHost: chaosWorkers}
	n.proxy = httptest.NewServer(n)
	return n
}

func (n *network) url() string { return n.proxy.URL }

// close waits until everything has arrived.
func (n *network) close() {
	n.base.CloseIdleConnections()
	n.proxy.Close()
}

// headerFate carries the fate from the caller's end of the network to the other.
const headerFate = "X-Fate"

// transport is the callers' end: it draws the fates, and refuses connections.
func (n *network) transport() http.RoundTripper { return callersEnd{n} }

type callersEnd struct{ *network }

func (c callersEnd) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	c.requests.Add(1)
	f, wait := c.draw(string(body))
	if f == refused {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	out := req.Clone(req.Context())
	out.Header.Set(headerFate, fmt.Sprintf("%d %d", f, wait))
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.GetBody = nil // what net/http repeats by itself would meet no fate of its own
	return c.base.RoundTrip(out)
}

// draw returns the fate of a request: that of the n-th with a body is the same
// in every run.
func (n *network) draw(body string) (fate, time.Duration) {
	n.mu.Lock()
	nth := n.seen[body]
	n.seen[body]++
	n.mu.Unlock()
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", n.seed, nth, body))
	rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
	drawn, wait := rng.IntN(100), time.Duration(rng.Int64N(int64(500*time.Millisecond)))
	for _, f := range fates {
		if drawn -= f.percent; drawn < 0 {
			return f.fate, wait
		}
	}
	return passes, wait
}

// ServeHTTP is the callee's end.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var f fate
	var wait time.Duration
	if _, err := fmt.Sscan(r.Header.Get(headerFate), &f, &wait); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // nobody is there any more
	}
	switch f {
	case dropped:
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to cut a connection
	case unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case throttled:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case delayed:
		time.Sleep(wait)
	default: // comes after the work, or was at the caller's end
	}
	answer := n.deliver(r, body)
	if f == answerDropped {
		panic(http.ErrAbortHandler) //nolint:forbidigo // as above
	}
	passOn(w, answer, f == answerCut)
}

// deliver hands the request to the callee, whatever became of the caller.
func (n *network) deliver(r *http.Request, body []byte) *httptest.ResponseRecorder {
	in := r.Clone(context.WithoutCancel(r.Context()))
	in.Header.Del(headerFate)
	in.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	n.callee.ServeHTTP(answer, in)
	return answer
}

// passOn writes the answer, or half of it.
func passOn(w http.ResponseWriter, answer *httptest.ResponseRecorder, half bool) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	body := answer.Body.Bytes()
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(answer.Code)
	if !half {
		_, _ = w.Write(body)
		return
	}
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) //nolint:forbidigo // as above
}
