package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// ANALYZE keeps no answer: it would stay in the statistics when the rows are gone.
func TestStored_statistics(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	pool := connect(t, database)
	for _, path := range routes {
		for i := range 50 {
			req := blackboxtest.Request{URL: p.URL + path, Tenant: "t", Key: fmt.Sprintf("%s-%d", path[4:], i), Body: `{"fp":"a"}`}
			require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), req).Status)
		}
	}
	for _, statement := range []string{"analyze", "delete from idempotency", "analyze"} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err)
		var analyzed, answers int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*),
			count(*) filter (where attname in ('envelope', 'memo', 'fingerprint') or position(encode('effect_id', 'hex') in s::text) > 0)
			from pg_stats s where tablename = 'idempotency'`).Scan(&analyzed, &answers))
		require.NotZero(t, analyzed, "it was analyzed")
		require.Zero(t, answers, "answers in the statistics after %s", statement)
	}
}

// With a codec an older answer of the same key, put back by hand, is not replayed.
func TestStored_olderAnswer(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database, codecVariable+"=1")
	pool := connect(t, database)
	for _, path := range routes {
		key := path[4:]
		req := blackboxtest.Request{URL: p.URL + path, Tenant: "t", Key: key, Body: `{"fp":"a"}`}
		id := store.NewID("t", "", childkey.MustParse(key)).String()
		first := blackboxtest.Post(t.Context(), req)
		require.Equal(t, http.StatusCreated, first.Status)
		var older []byte
		require.NoError(t, pool.QueryRow(t.Context(), "delete from idempotency where key = $1 returning envelope", id).Scan(&older))
		second := blackboxtest.Post(t.Context(), req)
		require.Equal(t, http.StatusCreated, second.Status)
		require.NotEqual(t, first.Body, second.Body, "two effects, as the key was forgotten by hand")
		require.Equal(t, second.Body, blackboxtest.Post(t.Context(), req).Body)

		done, err := pool.Exec(t.Context(), "update idempotency set envelope = $2 where key = $1", id, older)
		require.NoError(t, err)
		require.EqualValues(t, 1, done.RowsAffected())
		for range 2 {
			requireProblem(t, blackboxtest.Post(t.Context(), req), http.StatusInternalServerError, wire.RecordUnreadable, false)
		}
		require.Equal(t, 2, effects(t, pool, "t", key, kindDo))
	}
}
