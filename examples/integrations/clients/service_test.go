package clients

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// wait is how long a duplicate waits for the first run: much shorter than [SlowRun], so that the clients meet many
// answers in progress. The default of 5 s would save them nearly all of these.
const wait = 250 * time.Millisecond

// A renderFunc is a [server.Config.RenderProblem].
type renderFunc func(*http.Request, wire.Problem) server.Response

// startService serves charges over the store. It returns the service's address, and a log of its requests.
func startService(t *testing.T, store *pgstore.Store, render renderFunc) (addr string, log *requests) {
	t.Helper()
	cfg := server.Config{Wait: wait, RenderProblem: render}
	guard, err := server.NewGuard(store, server.Unscoped, cfg)
	require.NoError(t, err)
	charges, err := NewCharges(guard)
	require.NoError(t, err)
	if render != nil {
		charges = withStripeHeader(charges)
	}
	log = &requests{handler: charges, first: make(map[string]request)}
	s := httptest.NewServer(log)
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, guard.Shutdown(context.WithoutCancel(t.Context())))
	})
	return s.Listener.Addr().String(), log
}

// withStripeHeader repeats the guard's advice about retries under the name that Stripe's clients know.
func withStripeHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(stripeWriter{w}, r) })
}

type stripeWriter struct{ http.ResponseWriter }

func (w stripeWriter) WriteHeader(status int) {
	if advice := w.Header().Get("X-Should-Retry"); advice != "" {
		w.Header().Set("Stripe-Should-Retry", advice)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w stripeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newDatabase(t *testing.T) (*pgxpool.Pool, *pgstore.Store) {
	t.Helper()
	pool := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		if err := pgstore.Migrate(ctx, pool, schema); err != nil {
			return err
		}
		return CreateTables(ctx, pool)
	})
	store, err := pgstore.Open(t.Context(), pool.Config(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return pool, store
}

// requests keeps the first request of each key, and counts the refusals in progress.
type requests struct {
	handler http.Handler

	mu         sync.Mutex
	first      map[string]request
	inProgress int
}

type request struct {
	path   string
	header http.Header
	body   []byte
}

func (l *requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	key := r.Header.Get(wire.HeaderKey)
	l.mu.Lock()
	if _, ok := l.first[key]; !ok {
		l.first[key] = request{r.URL.RequestURI(), r.Header.Clone(), body}
	}
	l.mu.Unlock()
	l.handler.ServeHTTP(w, r)
	if w.Header().Get(wire.HeaderCode) == string(wire.InProgress) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inProgress++
	}
}

func (l *requests) refusedInProgress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inProgress
}

func (l *requests) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.first[key]
	return ok
}

// again sends the request of a key once more, as a client does that is more patient than the one that gave up. It
// returns the charge's ID, and "" if no request with the key ever arrived.
func (l *requests) again(t *testing.T, addr, key string) (id string) {
	t.Helper()
	l.mu.Lock()
	first, ok := l.first[key]
	l.mu.Unlock()
	if !ok {
		return ""
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+first.path, bytes.NewReader(first.body))
	require.NoError(t, err)
	req.Header = first.header
	req.Header.Del("Accept-Encoding")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", key, body)
	return idOf(body)
}
