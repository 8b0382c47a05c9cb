package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// keyInBody reads the key from a member of the JSON body, as Square's callers send it.
func keyInBody(_ *http.Request, body []byte) (string, error) {
	var in struct {
		Key string `json:"idempotency_key"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return "", err
	}
	if in.Key == "" {
		return "", server.ErrNoKey
	}
	return in.Key, nil
}

func keyRoute(tb testing.TB, g *server.Guard, key func(*http.Request, []byte) (string, error), next http.HandlerFunc) http.Handler {
	tb.Helper()
	h, err := g.Route(server.Route{Effect: server.Keyed, Key: key}, next)
	require.NoError(tb, err)
	return h
}

func TestRouteKey_inTheBody(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := keyRoute(t, newGuard(t, memstore.New(), server.Config{KeyPolicy: refuseShort, MaxRequestBytes: 300}), keyInBody, answer(http.StatusOK, &runs))
	const body = `{"idempotency_key":"order-1"}`
	first := send(h, "", body)
	require.Equal(t, http.StatusOK, first.Code)
	requireAnswer(t, send(h, "", body), http.StatusOK, first.Body.String(), true)
	requireAnswer(t, send(h, "order-1", body), http.StatusOK, first.Body.String(), true) // a header that says the same
	require.EqualValues(t, 1, runs.Load())
	requireCode(t, send(h, "", `{"idempotency_key":"order-1","amount":2}`), wire.KeyReused)

	for _, tt := range []struct {
		body string
		want wire.Code
	}{
		{`{}`, wire.KeyMissing},
		{``, wire.KeyInvalid},
		{`{"idempotency_key":7}`, wire.KeyInvalid},
		{`{"idempotency_key":"a b"}`, wire.KeyInvalid},
		{`{"idempotency_key":"k"}`, wire.KeyInvalid}, // refuseShort
		{`{"idempotency_key":"` + strings.Repeat("k", 256) + `"}`, wire.KeyInvalid},
		{`{"idempotency_key":"` + strings.Repeat("k", 400) + `"}`, wire.BodyTooLarge},
	} {
		w := send(h, "", tt.body)
		requireCode(t, w, tt.want)
		require.NotContains(t, w.Body.String(), "unmarshal", "the function's own text may hold the body")
	}
	require.EqualValues(t, 1, runs.Load())
}

// A route can read the key from another header, as other services do.
func TestRouteKey_inAnotherHeader(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := keyRoute(t, newGuard(t, memstore.New(), server.Config{}), func(r *http.Request, _ []byte) (string, error) {
		key := r.Header.Get("X-Request-Key")
		if key == "" {
			return "", fmt.Errorf("callers of version 1: %w", server.ErrNoKey)
		}
		return key, nil
	}, answer(http.StatusOK, &runs))
	requireAnswer(t, send(h, "", "b", "X-Request-Key", "k"), http.StatusOK, firstAnswer, false)
	requireAnswer(t, send(h, "", "b", "X-Request-Key", `"k"`), http.StatusOK, firstAnswer, true)
	requireCode(t, send(h, "", "b"), wire.KeyMissing)
}

func hashedKey(r *http.Request, _ []byte) (string, error) {
	text := r.Header.Get(wire.HeaderKey)
	if text == "" {
		return "", server.ErrNoKey
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text))), nil
}

// A service can serve old clients whose keys a guard refuses.
func TestRouteKey_mapsTheHeader(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := keyRoute(t, newGuard(t, memstore.New(), server.Config{}), hashedKey, answer(http.StatusOK, &runs))
	old := []string{"550e8400-e29b-41d4-a716-446655440000", "order 42", "ann@example.com,2024", "ключ", `a"b`, strings.Repeat("x", 300), `"quoted"`}
	for i, key := range old {
		for _, replayed := range []string{"false", "true"} {
			w := send(h, key, "b")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, replayed, w.Header().Get(wire.HeaderReplayed))
		}
		require.EqualValues(t, i+1, runs.Load())
		requireCode(t, send(h, key, "another"), wire.KeyReused)
	}
	requireCode(t, send(h, "", "b"), wire.KeyMissing)
}

// An undo names the forward call by the key that the caller sent.
func TestRouteKey_mapsTheForwardKey(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"order-42", "order 42"} {
		g := newGuard(t, memstore.New(), server.Config{})
		forward := keyRoute(t, g, hashedKey, func(http.ResponseWriter, *http.Request) {})
		backward := keyRoute(t, g, hashedKey, func(w http.ResponseWriter, r *http.Request) {
			fate, err := server.Barrier(r.Context())
			require.NoError(t, err)
			fmt.Fprint(w, fate)
		})
		require.Equal(t, http.StatusOK, send(forward, raw, "b").Code)
		requireAnswer(t, send(backward, "undo 42", "u", wire.HeaderCancels, raw), http.StatusOK, "ran", false)
		requireCode(t, send(forward, raw, "b"), wire.KeyCancelled)
		requireCode(t, send(backward, "undo 43", "u", wire.HeaderCancels, "undo 43"), wire.KeyInvalid) // itself
	}

	g := newGuard(t, memstore.New(), server.Config{}) // a key in the body maps nothing
	forward := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	backward := keyRoute(t, g, keyInBody, func(w http.ResponseWriter, r *http.Request) {
		fate, err := server.Barrier(r.Context())
		require.NoError(t, err)
		fmt.Fprint(w, fate)
	})
	send(forward, "order-42", "b")
	requireAnswer(t, send(backward, "", `{"idempotency_key":"undo-42"}`, wire.HeaderCancels, "order-42"), http.StatusOK, "ran", false)
}

// A key function that may name another key for a retry causes a 500 with a line in the log. There is no unguarded run
// and no record.
func TestRouteKey_broken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, header string
		key          func(n int64) (string, error)
	}{
		{"panic", "", func(int64) (string, error) { panic("canary") }},
		{"nil dereference", "", func(n int64) (string, error) { return (*http.Request)(nil).Host, nil }},
		{"abort", "", func(int64) (string, error) { panic(http.ErrAbortHandler) }},
		{"empty", "", func(int64) (string, error) { return "", nil }},
		{"empty the second time", "", func(n int64) (string, error) { return strings.Repeat("k", int(n%2)), nil }},
		{"another each time", "", func(n int64) (string, error) { return strconv.FormatInt(n, 10), nil }},
		{"another than the header", "h", func(int64) (string, error) { return "k", nil }},
		{"beside a header that is no key", "a b", func(int64) (string, error) { return "k", nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log journal
			var calls atomic.Int64
			store := &flaky{TxStore: memstore.New()}
			g := newGuard(t, store, server.Config{Logger: log.logger(slog.LevelError)})
			h := keyRoute(t, g, func(*http.Request, []byte) (string, error) { return tt.key(calls.Add(1)) },
				func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
			w := send(h, tt.header, "b")
			require.Equal(t, http.StatusInternalServerError, w.Code)
			require.Equal(t, "key-invalid", w.Header().Get(wire.HeaderCode))
			require.Equal(t, "false", w.Header().Get(wire.HeaderShouldRetry))
			p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
			require.True(t, ok)
			require.Equal(t, http.StatusInternalServerError, p.Status)
			logged := log.lines(t, "Route.Key")
			require.Len(t, logged, 1)
			require.Equal(t, strings.TrimPrefix(p.Instance, "urn:uuid:"), logged[0]["id"])
			require.Empty(t, log.lines(t, "canary"))
			require.Zero(t, store.asked.Load(), "calls of the store")
		})
	}
}

// If the function's key changes with each retry and the header's key does not,
// the guard sees it: the effect happens once.
func TestRouteKey_anotherOnARetry(t *testing.T) {
	t.Parallel()
	var runs, retries atomic.Int64
	h := keyRoute(t, newGuard(t, memstore.New(), server.Config{}), func(r *http.Request, _ []byte) (string, error) {
		return strings.TrimSuffix("order-1-"+r.Header.Get(wire.HeaderRetryAttempt), "-1"), nil // a new key for each attempt
	}, answer(http.StatusOK, &runs))
	for range 3 {
		attempt := strconv.FormatInt(retries.Add(1), 10)
		w := send(h, "order-1", "b", wire.HeaderRetryAttempt, attempt)
		if attempt != "1" {
			require.Equal(t, http.StatusInternalServerError, w.Code)
		}
	}
	require.EqualValues(t, 1, runs.Load())
}

func TestRouteKey_rejected(t *testing.T) {
	t.Parallel()
	_, err := newGuard(t, memstore.New(), server.Config{}).Route(
		server.Route{Effect: server.Keyed, Key: keyInBody, KeyOptional: true}, http.NotFoundHandler())
	var rejected *server.ConfigError
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, "Route.KeyOptional", rejected.Field)
}

// The handler gets the whole body that the function read.
func TestRouteKey_leavesTheBody(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h := keyRoute(t, newGuard(t, memstore.New(), server.Config{}), func(_ *http.Request, body []byte) (string, error) {
		if string(body) != "b" {
			return "", errors.New("another body")
		}
		return "k", nil
	}, answer(http.StatusOK, &runs))
	for _, replayed := range []bool{false, true} {
		requireAnswer(t, send(h, "", "b"), http.StatusOK, firstAnswer, replayed)
	}
}

// A StatusError of the route's functions reaches the caller, and nothing is stored.
func TestRoute_functionsRefuse(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(*http.Request, []byte) ([]byte, error) {
		return func(*http.Request, []byte) ([]byte, error) {
			return nil, fmt.Errorf("canary: %w", &server.StatusError{Status: status, Detail: "The name must be text.", Err: errors.New("canary")})
		}
	}
	for _, status := range []int{400, 415, 422} {
		for name, route := range map[string]server.Route{
			"Fingerprint": {Effect: server.Keyed, Fingerprint: refuse(status)},
			"Memo":        {Effect: server.Opaque, Memo: refuse(status)},
			"Key": {Effect: server.Keyed, Key: func(r *http.Request, b []byte) (string, error) {
				_, err := refuse(status)(r, b)
				return "", err
			}},
		} {
			var log journal
			store := &flaky{TxStore: memstore.New()}
			h, err := newGuard(t, store, server.Config{Logger: log.logger(slog.LevelDebug)}).Route(route,
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }))
			require.NoError(t, err)
			key := "k"
			if route.Key != nil {
				key = ""
			}
			w := send(h, key, "b")
			require.Equal(t, status, w.Code, name)
			require.Equal(t, "key-invalid", w.Header().Get(wire.HeaderCode))
			require.Equal(t, "false", w.Header().Get(wire.HeaderShouldRetry))
			require.Contains(t, w.Body.String(), "The name must be text.")
			require.NotContains(t, w.Body.String(), "canary")
			require.Empty(t, log.lines(t, "canary"))
			require.Zero(t, store.asked.Load(), "calls of the store")
		}
	}
	for _, status := range []int{200, 429, 503} { // no verdict on the request
		h, err := newGuard(t, memstore.New(), server.Config{}).Route(
			server.Route{Effect: server.Keyed, Fingerprint: refuse(status)}, http.NotFoundHandler())
		require.NoError(t, err)
		requireCode(t, send(h, "k", "b"), wire.KeyInvalid)
	}
}
