package sqltools_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// handler is a Transactional handler of a booking.
type handler = sqltools.Handler

// migrate makes the store's tables and the ledger's, with two accounts.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, sqltools.Schema); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, "insert into account (name, cents) values ('ann', 100), ('bob', 100)")
	return err
}

// serve starts a service that guards h, over a store with cfg. It returns its address.
func serve(tb testing.TB, pool *pgxpool.Pool, cfg pgstore.Config, h handler) string {
	tb.Helper()
	cfg.AllowNonDurable = true
	store, err := pgstore.Open(tb.Context(), pool.Config(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(store.Close)
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	require.NoError(tb, err)
	mux := http.NewServeMux()
	require.NoError(tb, server.Handle(mux, guard, sqltools.Book, server.Transactional, h))
	s := httptest.NewServer(mux)
	tb.Cleanup(s.Close)
	return s.URL
}

// An answer is what a caller sees.
type answer struct {
	status   int
	code     string // of a refusal
	replayed string
	receipt  sqltools.Receipt
}

// send makes one booking under a key.
func send(tb testing.TB, url, key string, in sqltools.Booking) answer {
	tb.Helper()
	body, err := json.Marshal(in)
	require.NoError(tb, err)
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url+"/bookings", strings.NewReader(string(body)))
	require.NoError(tb, err)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(tb, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	a := answer{status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed")}
	if a.status == http.StatusOK {
		require.NoError(tb, json.Unmarshal(text, &a.receipt))
		return a
	}
	var problem struct{ Code string }
	require.NoError(tb, json.Unmarshal(text, &problem), "%s", text)
	a.code = problem.Code
	return a
}

// requireLedger compares the entries of an account, and its balance, with the wanted ones.
func requireLedger(tb testing.TB, pool *pgxpool.Pool, account string, balance int64, entries ...int64) {
	tb.Helper()
	var gotBalance int64
	var got []int64
	require.NoError(tb, pool.QueryRow(tb.Context(), `select cents, array(select cents from entry where account = name order by id)
		from account where name = $1`, account).Scan(&gotBalance, &got))
	require.Equal(tb, balance, gotBalance, "balance of %s", account)
	if len(entries) == 0 {
		require.Empty(tb, got, "entries of %s", account)
		return
	}
	require.Equal(tb, entries, got, "entries of %s", account)
}

// each runs a test for each library, on a database of its own.
func each(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool, l library)) {
	t.Helper()
	for name, l := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.NewPool(t, migrate), l)
		})
	}
}
