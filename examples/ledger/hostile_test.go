package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// rowsLeft counts all that requests have left in the database.
func rowsLeft(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "select (select count(*) from idempotency) + (select count(*) from effects)").Scan(&n))
	return n
}

// requireProblem checks a refusal: its code, also in the header, its status and whether a
// retry can help, and that its instance is a key's ID.
func requireProblem(t *testing.T, a blackboxtest.Answer, status int, code wire.Code, retryable bool) wire.Problem {
	t.Helper()
	var p wire.Problem
	require.NoError(t, json.Unmarshal([]byte(a.Body), &p), a.Body)
	require.Equal(t, status, a.Status, a.Body)
	require.Equal(t, code, p.Code)
	require.Equal(t, string(code), a.Header.Get(wire.HeaderCode))
	for _, name := range []string{wire.HeaderShouldRetry, wire.HeaderXShouldRetry} {
		again, ok := wire.ParseFlag(a.Header.Values(name))
		require.True(t, ok, name)
		require.Equal(t, retryable, again, name)
	}
	for _, name := range []string{wire.HeaderRetryAfter, wire.HeaderRetryAfterMs} {
		require.Equal(t, retryable, a.Header.Get(name) != "", name)
	}
	require.NotEmpty(t, p.Detail)
	_, err := store.ParseID(p.Instance)
	require.NoError(t, err)
	return p
}

var routes = []string{"/v1/effect", "/v1/effect-opaque"}

// A first-sent time that no store keeps neither runs anything nor hides an answer.
func TestHostile_firstSent(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	pool := connect(t, database)
	for _, path := range routes {
		req := blackboxtest.Request{URL: p.URL + path, Tenant: "t", Key: strings.TrimPrefix(path, "/v1/"), Body: `{"fp":"a"}`}
		at := func(text string) blackboxtest.Request {
			r := req
			r.Header = map[string]string{wire.HeaderFirstSent: text}
			return r
		}
		before := rowsLeft(t, pool)
		for range 2 {
			for _, text := range []string{"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"} {
				requireProblem(t, blackboxtest.Post(t.Context(), at(text)), http.StatusBadRequest, wire.FirstSentInvalid, false)
			}
		}
		require.Equal(t, before, rowsLeft(t, pool), "a refusal leaves nothing behind")
		require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), req).Status)
		requireProblem(t, blackboxtest.Post(t.Context(), at("0000-01-01T00:00:00Z")), http.StatusBadRequest, wire.FirstSentInvalid, false)
		require.True(t, blackboxtest.Post(t.Context(), req).Replayed())
		require.Equal(t, 1, effects(t, pool, "t", req.Key, kindDo))
	}
}

// A row that makes no sense is record-unreadable, of a finished key too: the handler does
// not run, and nobody asks again.
func TestHostile_damagedRow(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	pool := connect(t, database)
	for _, path := range routes {
		for name, damage := range map[string]string{
			"state":       "state = 7",
			"effect":      "effect = 9",
			"time":        "created_at = 'infinity'",
			"lease":       "lease_until = '-infinity'",
			"fingerprint": "fingerprint = 'x'::bytea",
		} {
			key := strings.TrimPrefix(path, "/v1/") + "-" + name
			req := blackboxtest.Request{URL: p.URL + path, Tenant: "t", Key: key, Body: `{"fp":"a"}`}
			require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), req).Status)
			id := store.NewID("t", "", childkey.MustParse(key))
			done, err := pool.Exec(t.Context(), "update idempotency set "+damage+" where key = $1", id.String())
			require.NoError(t, err, name)
			require.EqualValues(t, 1, done.RowsAffected(), "the ID is the row's key, as text too")
			for range 2 {
				problem := requireProblem(t, blackboxtest.Post(t.Context(), req), http.StatusInternalServerError, wire.RecordUnreadable, false)
				require.Equal(t, "urn:uuid:"+id.String(), problem.Instance, name)
			}
			require.Equal(t, 1, effects(t, pool, "t", key, kindDo), name)
		}
	}
}

// Input that Postgres cannot store is refused before anything is stored.
func TestHostile_text(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	address := strings.TrimPrefix(p.URL, "http://")
	pool := connect(t, database)
	send := func(tenant, path, body string) blackboxtest.Answer {
		return rawRequest{
			path: path, body: body, headers: []string{"Authorization: Bearer " + tenant, "Idempotency-Key: k", "Idempotency-Cancels: f"},
		}.send(t, address)
	}
	for _, path := range append(routes, "/v1/undo") {
		requireProblem(t, send("t\xff", path, ""), http.StatusBadRequest, wire.ScopeMissing, false)
		requireProblem(t, send(strings.Repeat("t", 2000), path, ""), http.StatusBadRequest, wire.ScopeMissing, false)
		for _, body := range []string{
			`{"fp":"a\u0000"}`, `{"fp":"a","saga":"\u0000"}`, "{\"fp\":\"\xff\"}", `{"fp":"` + strings.Repeat("x", 1<<20-100) + `"}`,
		} {
			requireProblem(t, send("t", path, body), http.StatusBadRequest, wire.KeyInvalid, false)
		}
	}
	require.Zero(t, rowsLeft(t, pool))
	require.Equal(t, http.StatusCreated, send("t", "/v1/effect", `{"fp":"näh\\u0000"}`).Status)
}
