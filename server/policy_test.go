package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

func TestPolicy_followsTheConfiguration(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{
		Retention: 36 * time.Hour, AuditRetention: 30 * 24 * time.Hour, Skew: 90 * time.Second, Wait: 1500 * time.Millisecond,
		MinKeyBytes: 16, MaxRequestBytes: 1234, MaxResponseBytes: 5678, Methods: []string{http.MethodPost},
		ReplayHeaders: []string{"x-total"}, KeyPolicy: func(childkey.Key) error { return nil }, DocsURL: "https://example.com/docs",
	})
	p := g.Policy()
	require.Equal(t, 16, p.Key.MinBytes)
	require.Equal(t, 255, p.Key.MaxBytes)
	require.True(t, p.Key.Checked)
	require.Equal(t, server.FirstSentRules{Header: wire.HeaderFirstSent, Window: "PT36H", Skew: "PT1M30S"}, p.FirstSent)
	require.Equal(t, []string{http.MethodPost}, p.Methods)
	require.Equal(t, "PT36H", p.Answers.Lifetime)
	require.EqualValues(t, 36*3600, p.Answers.LifetimeSeconds)
	require.Equal(t, "PT720H", p.Answers.KeptFor)
	require.Equal(t, []int{401, 403, 407, 408, 421, 423, 425, 429}, p.Answers.NotStored)
	require.Contains(t, p.Answers.Headers, "X-Total")
	require.Contains(t, p.Answers.Headers, "Location")
	require.EqualValues(t, 5678, p.Answers.MaxBytes)
	require.EqualValues(t, 1234, p.MaxRequest)
	require.Equal(t, "PT1.5S", p.Waiting.Default)
	require.Equal(t, "PT10S", p.Waiting.Most)
	require.Equal(t, "https://example.com/docs", p.Docs)
	require.Len(t, p.Problems, len(wire.Situations()))

	require.Equal(t, "PT5S", newGuard(t, memstore.New(), server.Config{}).Policy().Waiting.Default)
	require.Equal(t, "PT0S", newGuard(t, memstore.New(), server.Config{Wait: -1}).Policy().Waiting.Default)
}

// The pattern says what Parse accepts, byte by byte.
func TestPolicy_keyPattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(newGuard(t, memstore.New(), server.Config{}).Policy().Key.Pattern)
	for b := range 128 {
		key := "a" + string(rune(b)) + "z"
		_, err := childkey.Parse(key)
		require.Equal(t, err == nil, pattern.MatchString(key), "byte %#x", b)
	}
}

func TestPolicyHandler(t *testing.T) {
	t.Parallel()
	g := newGuard(t, memstore.New(), server.Config{})
	for _, tt := range []struct {
		method     string
		status     int
		wantPolicy bool
	}{
		{http.MethodGet, http.StatusOK, true},
		{http.MethodHead, http.StatusOK, false},
		{http.MethodPost, http.StatusMethodNotAllowed, false},
	} {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(g.PolicyHandler())
			defer srv.Close()
			req, err := http.NewRequestWithContext(t.Context(), tt.method, srv.URL, strings.NewReader(""))
			require.NoError(t, err)
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			defer func() { require.NoError(t, resp.Body.Close()) }()
			require.Equal(t, tt.status, resp.StatusCode)
			if tt.status == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, HEAD", resp.Header.Get("Allow"))
				requireHeaders(t, resp, wire.MethodNotAllowed)
				return
			}
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			if tt.wantPolicy {
				var got server.Policy
				require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
				require.Equal(t, g.Policy(), got)
			}
		})
	}
}
