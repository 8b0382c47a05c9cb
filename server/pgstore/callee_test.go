package pgstore_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A callee is a guarded service over a socket. Each run of its handler writes one row of
// the table effect, in the run's transaction.
type callee struct {
	url     string
	metrics *server.Metrics
}

// newCallee starts a callee that does work after it has written the row.
func newCallee(t *testing.T, s *pgstore.Store, cfg server.Config, work func(*http.Request)) *callee {
	t.Helper()
	c := &callee{metrics: server.NewMetrics()}
	cfg.Observer = c.metrics
	guard, err := server.NewGuard(s, server.Unscoped, cfg)
	require.NoError(t, err)
	handler, err := guard.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := effect(r.Context(), pgstore.Tx(r.Context())); err != nil {
			http.Error(w, "no effect", http.StatusInternalServerError)
			return
		}
		work(r)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "once") // the guard's recorder takes all of it
	}))
	require.NoError(t, err)
	listener := httptest.NewServer(handler)
	t.Cleanup(func() {
		listener.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, guard.Shutdown(ctx))
	})
	c.url = listener.URL
	return c
}

// A reply is an answer of a callee.
type reply struct {
	status   int
	body     string
	header   http.Header
	replayed bool
}

// replyTimeout is far beyond every deadline of a callee in these tests.
const replyTimeout = time.Minute

// post sends one request, and no layer below repeats it. status is 0 if no answer came.
func (c *callee) post(ctx context.Context, key string) reply {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, http.NoBody)
	if err != nil {
		return reply{}
	}
	req.Header.Set(wire.HeaderKey, key)
	req.Header.Set("Prefer", "wait=0")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}
	}
	return reply{resp.StatusCode, string(body), resp.Header, resp.Header.Get(wire.HeaderReplayed) == "true"}
}

// insist sends the request again until it has a final answer, as a caller does.
func (c *callee) insist(t *testing.T, key string) (last reply) {
	t.Helper()
	until(t, key+" has its answer", func() bool {
		last = c.post(t.Context(), key)
		return last.status != 0 && last.status != http.StatusConflict && last.status != http.StatusServiceUnavailable
	})
	return last
}

// count returns how often the event happened.
func (c *callee) count(kind server.EventKind) (n int64) {
	for _, route := range c.metrics.Snapshot() {
		n += route.Counts[kind.String()]
	}
	return n
}
