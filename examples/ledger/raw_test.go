package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A rawRequest is sent byte for byte, as no client would send it.
type rawRequest struct {
	path    string // "" means /v1/effect
	headers []string
	body    string // "" means a good one
	length  int    // announced; 0 means the body's
}

func (r rawRequest) send(t *testing.T, address string) blackboxtest.Answer {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	if r.path == "" {
		r.path = "/v1/effect"
	}
	if r.body == "" {
		r.body = `{"fp":"x"}`
	}
	if r.length == 0 {
		r.length = len(r.body)
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: ledger\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s",
		r.path, strings.Join(r.headers, "\r\n"), r.length, r.body)
	if r.length > len(r.body) { // nothing more comes. Else a server would take it for a caller that hung up
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return blackboxtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

func withKey(key string, more ...string) rawRequest {
	return rawRequest{headers: append([]string{"Authorization: Bearer t", "Idempotency-Key: " + key}, more...)}
}

// Malformed requests are refused with their own codes, before anything is stored.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	address := strings.TrimPrefix(p.URL, "http://")
	elsewhere := func(r rawRequest, path, body string) rawRequest { r.path, r.body = path, body; return r }
	refused := []struct {
		name string
		req  rawRequest
		code wire.Code
	}{
		{"no tenant", rawRequest{headers: []string{"Idempotency-Key: k"}}, wire.ScopeMissing},
		{"no key", rawRequest{headers: []string{"Authorization: Bearer t"}}, wire.KeyMissing},
		{"empty key", withKey(""), wire.KeyInvalid},
		{"empty string", withKey(`""`), wire.KeyInvalid},
		{"two lines", withKey("k", "Idempotency-Key: k"), wire.KeyInvalid},
		{"list", withKey("a, b"), wire.KeyInvalid},
		{"inner list", withKey("(a b)"), wire.KeyInvalid},
		{"open quote", withKey(`"k`), wire.KeyInvalid},
		{"escape", withKey(`"a\"b"`), wire.KeyInvalid},
		{"inner space", withKey("a b"), wire.KeyInvalid},
		{"not ASCII", withKey("k\xc3\xa9y"), wire.KeyInvalid},
		{"256 bytes", withKey(strings.Repeat("k", 256)), wire.KeyInvalid},
		{"cut off", rawRequest{headers: withKey("cut").headers, length: 100}, wire.BodyIncomplete},
		{"too large", rawRequest{headers: withKey("large").headers, length: 1<<20 + 1}, wire.BodyTooLarge},
		{"first sent at no time", withKey("fs", "Idempotency-First-Sent: yesterday"), wire.FirstSentInvalid},
		{"first sent in the future", withKey("fs", "Idempotency-First-Sent: 2999-01-01T00:00:00Z"), wire.FirstSentInvalid},
		{"first sent long ago", withKey("fs", "Idempotency-First-Sent: 2020-01-01T00:00:00Z"), wire.KeyExpired},
		{"undo of itself", elsewhere(withKey("u", "Idempotency-Cancels: u"), "/v1/undo", ""), wire.KeyInvalid},
		{"undo of no key", elsewhere(withKey("u", "Idempotency-Cancels: a b"), "/v1/undo", ""), wire.KeyInvalid},
	}
	for _, tt := range refused {
		requireRefused(t, address, tt.name, tt.req, tt.code)
	}
	pool := connect(t, database)
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), "select (select count(*) from idempotency) + (select count(*) from effects)").Scan(&rows))
	require.Zero(t, rows, "a refusal leaves nothing behind")

	for _, key := range []string{strings.Repeat("k", 255), `"k";a=1`, "K", "%00"} {
		a := withKey(key).send(t, address)
		require.Equal(t, http.StatusCreated, a.Status, a.Body)
		require.Equal(t, "false", a.Header.Get(wire.HeaderReplayed), "%q is a key of its own", key)
	}
	require.True(t, withKey("k", "Prefer: wait=soon").send(t, address).Replayed(), "bare and quoted are one key; a bad preference is none")
	requireRefused(t, address, "other body", elsewhere(withKey("k"), "", `{"fp":"y"}`), wire.KeyReused)
	requireRefused(t, address, "other query", elsewhere(withKey("k"), "/v1/effect?a=1", ""), wire.KeyReused)
	requireRefused(t, address, "other path", elsewhere(withKey("k"), "/v1/effect-opaque", ""), wire.KeyReused)
	requireRefused(t, address, "other encoding", withKey("k", "Content-Encoding: br"), wire.KeyReused)
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
}

func requireRefused(t *testing.T, address, name string, req rawRequest, code wire.Code) {
	t.Helper()
	a := req.send(t, address)
	problem, ok := wire.ParseProblem(a.Header.Get("Content-Type"), []byte(a.Body))
	require.True(t, ok, "%s: answer %d %s", name, a.Status, a.Body)
	situation, _ := code.Situation()
	require.Equal(t, code, problem.Code, name)
	require.Equal(t, situation.Status, a.Status, name)
	require.Equal(t, "false", a.Header.Get(wire.HeaderShouldRetry), name)
	require.Empty(t, a.Header.Get(wire.HeaderRetryAfter), name)
}
