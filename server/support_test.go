package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A flaky store calls its functions instead of the store behind it.
type flaky struct {
	store.TxStore
	claim    func(context.Context, store.ClaimRequest) (store.Record, bool, error)
	read     func(context.Context, store.ID) (store.Record, error)
	takeOver func(context.Context, store.ClaimRequest, int64) (store.Record, bool, error)
	renew    func(context.Context, []store.Owner, time.Duration) (store.Renewal, error)
	settle   func(context.Context, store.Owner, store.Settlement) error
	begin    func(context.Context) (store.Tx, error)
	sweep    func(context.Context, int) (int, error)
	asked    atomic.Int64 // calls of Claim and Read
}

func (f *flaky) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	f.asked.Add(1)
	if f.claim != nil {
		return f.claim(ctx, req)
	}
	return f.TxStore.Claim(ctx, req)
}

func (f *flaky) Read(ctx context.Context, id store.ID) (store.Record, error) {
	f.asked.Add(1)
	if f.read != nil {
		return f.read(ctx, id)
	}
	return f.TxStore.Read(ctx, id)
}

func (f *flaky) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	if f.takeOver != nil {
		return f.takeOver(ctx, req, from)
	}
	return f.TxStore.TakeOver(ctx, req, from)
}

func (f *flaky) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if f.renew != nil {
		return f.renew(ctx, owners, lease)
	}
	return f.TxStore.Renew(ctx, owners, lease)
}

func (f *flaky) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if f.settle != nil {
		return f.settle(ctx, o, s)
	}
	return f.TxStore.Settle(ctx, o, s)
}

func (f *flaky) Begin(ctx context.Context) (store.Tx, error) {
	if f.begin != nil {
		return f.begin(ctx)
	}
	return f.TxStore.Begin(ctx)
}

func (f *flaky) Sweep(ctx context.Context, limit int) (int, error) {
	if f.sweep != nil {
		return f.sweep(ctx, limit)
	}
	return f.TxStore.Sweep(ctx, limit)
}

// A plainStore hides that a store has transactions.
type plainStore struct{ store.Store }

// A witness remembers every event.
type witness struct {
	mu     sync.Mutex
	events []server.Event
}

func (w *witness) Observe(_ context.Context, e server.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *witness) count(kind server.EventKind) int { return len(w.all(kind)) }

func (w *witness) all(kind server.EventKind) []server.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []server.Event
	for _, e := range w.events {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

func newGuard(tb testing.TB, s store.Store, cfg server.Config) *server.Guard {
	tb.Helper()
	g, err := server.NewGuard(s, server.Unscoped, cfg)
	require.NoError(tb, err)
	return g
}

func newInbox(tb testing.TB, g *server.Guard, cfg inbox.Config) *inbox.Inbox {
	tb.Helper()
	b, err := inbox.New(g, cfg)
	require.NoError(tb, err)
	return b
}

var message = inbox.Message{Source: "orders", ID: "0/42", Payload: []byte("tea")}

func newRoute(tb testing.TB, g *server.Guard, effect server.Effect, next http.HandlerFunc) http.Handler {
	tb.Helper()
	h, err := g.Handler(effect, next)
	require.NoError(tb, err)
	return h
}

// guarded is a route over a store of its own.
func guarded(tb testing.TB, effect server.Effect, next http.HandlerFunc) (http.Handler, *memstore.Store) {
	tb.Helper()
	s := memstore.New()
	return newRoute(tb, newGuard(tb, s, server.Config{}), effect, next), s
}

// ordered returns a request to create an order under key.
func ordered(key, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders?dry=no", strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain")
	if key != "" {
		r.Header.Set(wire.HeaderKey, key)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func send(h http.Handler, key, body string, headers ...string) *httptest.ResponseRecorder {
	return serve(h, ordered(key, body, headers...))
}

// requireCode checks that w is the refusal that the wire contract asks for.
func requireCode(tb testing.TB, w *httptest.ResponseRecorder, code wire.Code) {
	tb.Helper()
	p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
	require.True(tb, ok, "answer %d %q is not a problem of the idempotency layer", w.Code, w.Body)
	require.Equal(tb, code, p.Code)
	situation, ok := code.Situation()
	require.True(tb, ok)
	require.Equal(tb, situation.Status, w.Code)
	require.Equal(tb, situation.Retryable, w.Header().Get(wire.HeaderShouldRetry) == "true", "Idempotency-Should-Retry")
	require.Equal(tb, w.Header().Get(wire.HeaderShouldRetry), w.Header().Get(wire.HeaderXShouldRetry), "X-Should-Retry")
	require.Equal(tb, situation.RetryAfter, w.Header().Get(wire.HeaderRetryAfter) != "", "Retry-After")
	require.Equal(tb, situation.RetryAfter, w.Header().Get(wire.HeaderRetryAfterMs) != "", "Retry-After-Ms")
	require.Equal(tb, string(code), w.Header().Get(wire.HeaderCode), "Idempotency-Code")
	require.NotEmpty(tb, p.Instance)
}

// requireAnswer checks a handler's answer, first or replayed.
func requireAnswer(tb testing.TB, w *httptest.ResponseRecorder, status int, body string, replayed bool) {
	tb.Helper()
	require.Equal(tb, status, w.Code, "body %q", w.Body)
	require.Equal(tb, body, w.Body.String())
	flag, ok := wire.ParseFlag(w.Header().Values(wire.HeaderReplayed))
	require.True(tb, ok, "Idempotent-Replayed is missing")
	require.Equal(tb, replayed, flag, "Idempotent-Replayed")
}

// id returns the store's ID of the key in the first event.
func (w *witness) id() store.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[0].ID
}

func readRecord(tb testing.TB, s store.Store, w *witness) store.Record {
	tb.Helper()
	rec, err := s.Read(context.Background(), w.id())
	require.NoError(tb, err)
	return rec
}

// answer is a handler that counts its runs and answers with the count.
func answer(status int, runs *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := runs.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"run": n, "got": string(body)})
	}
}

const firstAnswer = `{"got":"b","run":1}` + "\n"
