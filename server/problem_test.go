package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// recordIn is a route whose store answers every claim with a record as change makes it.
func recordIn(tb testing.TB, change func(*store.Record), cfg server.Config, route server.Route) http.Handler {
	tb.Helper()
	s := &flaky{TxStore: memstore.New()}
	s.claim = func(_ context.Context, req store.ClaimRequest) (store.Record, bool, error) {
		now := time.Now()
		rec := store.Record{
			ID: req.ID, State: server.StateInProgress, Fingerprint: req.Fingerprint, Effect: server.Opaque,
			Now: now, CreatedAt: now.Add(-time.Second), LeaseUntil: now.Add(10 * time.Second), ExpiresAt: now.Add(time.Hour), Fence: 1,
		}
		change(&rec)
		return rec, false, nil
	}
	route.Effect = server.Opaque
	h, err := newGuard(tb, s, cfg).Route(route, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tb.Error("the handler ran") }))
	require.NoError(tb, err)
	return h
}

// The problem of every refusal says in plain words what to do, and names the key as the store does.
func TestRefusals_sayWhatToDo(t *testing.T) {
	t.Parallel()
	at := func(s server.State) func(*store.Record) { return func(r *store.Record) { r.State = s } }
	now := []string{wire.HeaderPrefer, "wait=0"}
	for code, w := range map[wire.Code]*httptest.ResponseRecorder{
		wire.InProgress:       send(recordIn(t, func(*store.Record) {}, server.Config{}, server.Route{}), "k", "b", now...),
		wire.OutcomeUnknown:   send(recordIn(t, at(server.StateUnknown), server.Config{}, server.Route{}), "k", "b"),
		wire.Poisoned:         send(recordIn(t, at(server.StateQuarantined), server.Config{}, server.Route{}), "k", "b"),
		wire.KeyCancelled:     send(recordIn(t, at(server.StateCancelled), server.Config{}, server.Route{}), "k", "b"),
		wire.ResponseGone:     send(recordIn(t, at(server.StateCompleted), server.Config{}, server.Route{}), "k", "b"),
		wire.RecordUnreadable: send(recordIn(t, at(99), server.Config{}, server.Route{}), "k", "b"),
		wire.KeyReused:        send(recordIn(t, func(r *store.Record) { r.Fingerprint.Sum[0]++ }, server.Config{}, server.Route{}), "k", "b"),
		wire.FirstSentInvalid: send(recordIn(t, at(1), server.Config{}, server.Route{}), "k", "b", wire.HeaderFirstSent, "soon"),
		wire.BodyTooLarge:     send(recordIn(t, at(1), server.Config{MaxRequestBytes: 1}, server.Route{}), "k", "bb"),
	} {
		requireCode(t, w, code)
		p, _ := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
		require.Equal(t, "urn:uuid:"+store.NewID("unscoped", "", key(t, "k")).String(), p.Instance, code)
	}
}

// Each code has a detail: an unknown row would be an answer without advice.
func TestRefusals_everyCodeHasADetail(t *testing.T) {
	t.Parallel()
	for _, s := range wire.Situations() {
		detail := server.DetailOf(s.Code)
		require.NotEmpty(t, detail, s.Code)
		require.True(t, strings.HasSuffix(detail, "."), s.Code)
		for _, jargon := range []string{"lease", "fence", "claim", "fingerprint", "server:", "wire:"} {
			require.NotContains(t, detail, jargon, s.Code)
		}
		if s.Retryable {
			require.Contains(t, detail, "Send the same request with the same key again", s.Code)
		}
	}
}

// The problem describes the caller's mistake with its key without Go's error text.
func TestRefusals_keyDetails(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	for _, w := range []*httptest.ResponseRecorder{
		send(h, "", "b"), send(h, "a b", "b"), send(h, "a", "b", wire.HeaderCancels, "a"), send(h, "a", "b", wire.HeaderCancels, "a b"),
		send(h, "a", "b", wire.HeaderFirstSent, "soon"), send(h, "a", "b", wire.HeaderFirstSent, wire.FormatFirstSent(time.Now().Add(time.Hour))),
	} {
		p, ok := wire.ParseProblem(w.Header().Get("Content-Type"), w.Body.Bytes())
		require.True(t, ok)
		require.NotEmpty(t, p.Detail)
		for _, goText := range []string{"server:", "wire:", "childkey:", "parsing"} {
			require.NotContains(t, p.Detail, goText)
		}
		_, err := store.ParseID(p.Instance)
		require.NoError(t, err)
	}
}

// If the service that authenticates callers is down, callers must keep retrying.
func TestScope_errors(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for _, tt := range []struct {
		name      string
		err       error
		status    int
		code      wire.Code
		retryable bool
		detail    string // "": the code's
	}{
		{"outage", fmt.Errorf("auth backend: %w", dial), 503, wire.ScopeUnavailable, true, ""},
		{"any error", errors.New("oops"), 503, wire.ScopeUnavailable, true, ""},
		{"deadline", context.DeadlineExceeded, 503, wire.ScopeUnavailable, true, ""},
		{"401", &server.StatusError{Status: 401, Detail: "Log in again."}, 401, wire.ScopeMissing, false, "Log in again."},
		{"400, wrapped", fmt.Errorf("tenant: %w", &server.StatusError{Status: 400, Detail: "The tenant is no text."}), 400, wire.ScopeMissing, false, "The tenant is no text."},
		{"403", &server.StatusError{Status: 403}, 403, wire.ScopeMissing, false, ""},
		{"423", &server.StatusError{Status: 423}, 423, wire.ScopeMissing, false, ""},
		{"429", &server.StatusError{Status: 429}, 429, wire.ScopeUnavailable, true, ""},
		{"502", &server.StatusError{Status: 502, Err: dial}, 502, wire.ScopeUnavailable, true, ""},
		{"no refusal", &server.StatusError{Status: 200}, 503, wire.ScopeUnavailable, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &flaky{TxStore: memstore.New()}
			g, err := server.NewGuard(s, func(*http.Request) (string, error) { return "canary", tt.err }, server.Config{})
			require.NoError(t, err)
			r := ordered("k", "")
			r.Method = http.MethodGet
			for _, w := range []*httptest.ResponseRecorder{
				send(newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }), "k", "b"),
				serve(g.LookupHandler(), r),
			} {
				require.Equal(t, tt.status, w.Code)
				var p wire.Problem
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
				require.Equal(t, tt.code, p.Code)
				require.Equal(t, tt.status, p.Status)
				if tt.detail == "" {
					tt.detail = server.DetailOf(tt.code)
				}
				require.Equal(t, tt.detail, p.Detail)
				require.Equal(t, string(tt.code), w.Header().Get(wire.HeaderCode))
				require.Equal(t, fmt.Sprint(tt.retryable), w.Header().Get(wire.HeaderShouldRetry))
				require.Equal(t, tt.retryable, w.Header().Get(wire.HeaderRetryAfter) != "", "Retry-After")
				require.Equal(t, tt.status == 401, w.Header().Get("WWW-Authenticate") != "", "WWW-Authenticate")
			}
			require.Zero(t, s.asked.Load(), "calls of the store")
		})
	}
}

// RFC 9110 wants a challenge in every 401. The challenge of a layer around the guard stays.
func TestScope_challenge(t *testing.T) {
	t.Parallel()
	g, err := server.NewGuard(memstore.New(), func(*http.Request) (string, error) { return "", nil }, server.Config{})
	require.NoError(t, err)
	h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	w := send(h, "k", "b")
	requireCode(t, w, wire.ScopeMissing)
	require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
	w = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `DPoP algs="ES256"`)
		h.ServeHTTP(w, r)
	}), ordered("k", "b"))
	require.Equal(t, []string{`DPoP algs="ES256"`}, w.Header().Values("WWW-Authenticate"))
}

// If a handler passes on another service's refusal, its own request is not refused.
func TestHandler_passesARefusalOn(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(wire.HeaderCode, string(wire.ResponseGone))
		w.WriteHeader(http.StatusGone)
	})
	for range 2 {
		w := send(h, "k", "b")
		require.Equal(t, http.StatusGone, w.Code)
		require.Empty(t, w.Header().Values(wire.HeaderCode))
	}
}
