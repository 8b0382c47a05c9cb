package faultnet_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// A callee answers every request with the body it got, and counts.
type callee struct {
	mu   sync.Mutex
	got  []string
	wait chan struct{} // nil: answers at once
}

func (c *callee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	c.got = append(c.got, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
	c.mu.Unlock()
	if c.wait != nil {
		<-c.wait
	}
	w.Header().Set("X-Callee", "yes")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

func (c *callee) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.got...)
}

func listen(t *testing.T, profile faultnet.Profile, to http.Handler) *faultnet.Edge {
	t.Helper()
	edge, err := faultnet.Listen(faultnet.Config{Name: t.Name(), Seed: 1, Profile: profile})
	require.NoError(t, err)
	t.Cleanup(func() { edge.Close(context.Background()) })
	if to != nil {
		server := httptest.NewServer(to)
		t.Cleanup(server.Close)
		edge.Forward(server.Listener.Addr().String())
	}
	return edge
}

func always(kind faultnet.Kind) faultnet.Profile {
	return faultnet.Profile{Rates: map[faultnet.Kind]float64{kind: 1}, MaxWait: time.Millisecond}
}

// post sends body and returns the status and what arrived of the answer.
func post(t *testing.T, edge *faultnet.Edge, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edge.URL()+"/x?y=1", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	req.GetBody = nil // net/http must not send it again by itself
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

func TestEdge_kinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind      faultnet.Kind
		delivered []int // numbers of deliveries that may be seen, by the form of the kind
		status    int   // 0: no answer
		body      string
		cut       bool // the answer's body ends early
	}{
		{"", []int{1}, http.StatusCreated, "hello, callee", false},
		{faultnet.DropRequest, []int{0}, 0, "", false},
		{faultnet.DropResponse, []int{1}, 0, "", false},
		{faultnet.Truncate, []int{1}, http.StatusCreated, "hello,", true},
		{faultnet.BadGateway, []int{0, 1}, http.StatusBadGateway, "", false},
		{faultnet.Duplicate, []int{2}, http.StatusCreated, "hello, callee", false},
		{faultnet.Delay, []int{1}, http.StatusCreated, "hello, callee", false},
	}
	for _, tt := range tests {
		t.Run("kind "+tt.kind.String(), func(t *testing.T) {
			t.Parallel()
			var to callee
			profile := faultnet.Profile{}
			if tt.kind != "" {
				profile = always(tt.kind)
			}
			edge := listen(t, profile, &to)
			status, body, err := post(t, edge, "hello, callee")
			if gone := err != nil; gone != (tt.status == 0 || tt.cut) {
				t.Errorf("error = %v, want an error: %v", err, !gone)
			}
			if status != tt.status || body != tt.body {
				t.Errorf("answer = %d %q, want %d %q", status, body, tt.status, tt.body)
			}
			require.NoError(t, edge.Close(t.Context())) // copies have arrived
			require.Contains(t, tt.delivered, len(to.requests()))
			for _, got := range to.requests() {
				require.Equal(t, "POST /x?y=1 k hello, callee", got)
			}
			counts := edge.Counts()
			require.Equal(t, 1, counts.Attempts)
			require.Equal(t, len(to.requests()), counts.Delivered)
			require.Zero(t, counts.Unanswered+counts.Refused)
			if tt.kind == "" {
				require.Zero(t, counts.Injected())
			} else {
				require.Equal(t, map[faultnet.Kind]int{tt.kind: 1}, counts.Faults)
			}
		})
	}
}

func TestEdge_bothForms(t *testing.T) {
	t.Parallel()
	var to callee
	edge := listen(t, always(faultnet.BadGateway), &to)
	for range 64 {
		_, _, err := post(t, edge, "again")
		require.NoError(t, err)
	}
	if got := len(to.requests()); got == 0 || got == 64 {
		t.Errorf("%d of 64 bad gateways came after the work, want some and not all", got)
	}
}

func TestEdge_sameSeedSameFates(t *testing.T) {
	t.Parallel()
	profile, err := faultnet.Named("brutal")
	require.NoError(t, err)
	profile.MaxWait = time.Millisecond
	outcomes := func(name string, seed uint64) map[faultnet.Kind]int {
		edge, err := faultnet.Listen(faultnet.Config{Name: name, Seed: seed, Profile: profile})
		require.NoError(t, err)
		server := httptest.NewServer(&callee{})
		defer server.Close()
		edge.Forward(server.Listener.Addr().String())
		var clients sync.WaitGroup
		for _, body := range []string{"a", "b", "c", "d"} { // their order differs in every run
			clients.Go(func() {
				for range 20 {
					_, _, _ = post(t, edge, body)
				}
			})
		}
		clients.Wait()
		require.NoError(t, edge.Close(t.Context()))
		require.Equal(t, 80, edge.Counts().Attempts)
		return edge.Counts().Faults
	}
	first := outcomes("one", 7)
	require.Equal(t, first, outcomes("one", 7))
	require.NotEqual(t, first, outcomes("one", 8), "another seed")
	require.NotEqual(t, first, outcomes("two", 7), "another edge")
	require.Len(t, first, len(faultnet.Kinds()), "every kind occurs: %v", first)
}

func TestEdge_noCallee(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	dead := server.Listener.Addr().String()
	server.Close()
	edge := listen(t, faultnet.Profile{}, nil)
	for _, target := range []string{"", dead} {
		if target != "" {
			edge.Forward(target)
		}
		status, _, err := post(t, edge, "x")
		require.NoError(t, err)
		require.Equal(t, http.StatusBadGateway, status)
	}
	counts := edge.Counts()
	require.Equal(t, 2, counts.Attempts)
	require.Equal(t, 2, counts.Refused)
	require.Zero(t, counts.Delivered)
}

// A caller that hangs up must not take back what it sent: otherwise the demo
// would have no effects without an answer.
func TestEdge_callerHangsUp(t *testing.T) {
	t.Parallel()
	to := &callee{wait: make(chan struct{})}
	edge := listen(t, faultnet.Profile{}, to)
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, edge.URL()+"/x", strings.NewReader("x"))
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	require.Eventually(t, func() bool { return len(to.requests()) == 1 && edge.InFlight() == 1 }, 10*time.Second, time.Millisecond)
	hangUp()
	require.ErrorIs(t, <-failed, context.Canceled)
	close(to.wait)
	require.NoError(t, edge.Close(t.Context()))
	require.Zero(t, edge.Counts().Unanswered)
	require.Zero(t, edge.InFlight())
}

// A gateway gives up on a slow callee, which works on: the caller's retry meets a run in progress.
func TestEdge_answerTimeout(t *testing.T) {
	t.Parallel()
	to := &callee{wait: make(chan struct{})}
	edge := listen(t, faultnet.Profile{AnswerTimeout: 20 * time.Millisecond}, to)
	status, _, err := post(t, edge, "slow")
	require.NoError(t, err)
	require.Equal(t, http.StatusGatewayTimeout, status)
	require.Eventually(t, func() bool { return len(to.requests()) == 1 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, edge.InFlight(), "the callee works on")
	close(to.wait)
	require.NoError(t, edge.Close(t.Context()), "it waits for the callee")
	require.Zero(t, edge.InFlight())
	counts := edge.Counts()
	require.Equal(t, []int{1, 1, 0}, []int{counts.TimedOut, counts.Delivered, counts.Unanswered})
}

func TestEdge_closeIsBounded(t *testing.T) {
	t.Parallel()
	to := &callee{wait: make(chan struct{})}
	defer close(to.wait)
	edge := listen(t, faultnet.Profile{}, to)
	var caller sync.WaitGroup
	caller.Go(func() { _, _, _ = post(t, edge, "x") }) // cut off below
	defer caller.Wait()
	require.Eventually(t, func() bool { return len(to.requests()) == 1 }, 10*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, edge.Close(ctx), context.Canceled)
	require.NoError(t, edge.Close(t.Context()), "a second Close")
	require.Equal(t, 1, edge.Counts().Unanswered)
}

func TestListen_badConfig(t *testing.T) {
	t.Parallel()
	rates := func(kind faultnet.Kind, rate float64) faultnet.Profile {
		return faultnet.Profile{Rates: map[faultnet.Kind]float64{kind: rate}}
	}
	tests := []struct {
		name string
		cfg  faultnet.Config
	}{
		{"no name", faultnet.Config{}},
		{"negative rate", faultnet.Config{Name: "x", Profile: rates(faultnet.Delay, -0.1)}},
		{"rate above one", faultnet.Config{Name: "x", Profile: rates(faultnet.Delay, 1.1)}},
		{"rate not a number", faultnet.Config{Name: "x", Profile: rates(faultnet.Delay, math.NaN())}},
		{"unknown kind", faultnet.Config{Name: "x", Profile: rates("gremlins", 0.1)}},
		{"sum above one", faultnet.Config{Name: "x", Profile: faultnet.Profile{Rates: map[faultnet.Kind]float64{
			faultnet.Delay: 0.6, faultnet.Duplicate: 0.6,
		}}}},
		{"negative timeout", faultnet.Config{Name: "x", Profile: faultnet.Profile{AnswerTimeout: -1}}},
		{"negative wait", faultnet.Config{Name: "x", Profile: faultnet.Profile{MaxWait: -1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := faultnet.Listen(tt.cfg); !errors.Is(err, faultnet.ErrInvalid) {
				t.Errorf("Listen(%+v) error = %v, want %v", tt.cfg, err, faultnet.ErrInvalid)
			}
		})
	}
	if _, err := faultnet.Named("worse"); !errors.Is(err, faultnet.ErrInvalid) {
		t.Errorf("Named(worse) error = %v, want %v", err, faultnet.ErrInvalid)
	}
}
