package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Others take every connection that the server has. The service is not ready, and answers 503
// with Retry-After until some are free; then the same key has its one effect.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Settings: map[string]string{"max_connections": "12"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	database, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	p := ledger(t, withPool(database, 4))
	req := blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}

	hogs := takeAll(t, cluster.URL("postgres"))
	requireDown := func() {
		t.Helper()
		a := blackboxtest.Post(t.Context(), req)
		require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		require.Equal(t, http.StatusServiceUnavailable, blackboxtest.Status(t.Context(), p.URL+"/healthz"))
	}
	requireDown()
	requireDown()
	for _, hog := range hogs {
		require.NoError(t, hog.Close(t.Context()))
	}
	p.AwaitReady()
	pool := connect(t, database)
	require.Zero(t, effects(t, pool, "t", "k", kindDo))
	require.Equal(t, http.StatusCreated, blackboxtest.PostUntilFinal(t.Context(), req).Status)
	require.True(t, blackboxtest.Post(t.Context(), req).Replayed())
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
}

// takeAll opens connections until the server refuses one, and ends those of the service
// until it has none left.
func takeAll(t *testing.T, url string) (hogs []*pgx.Conn) {
	t.Helper()
	dial := func() error {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // it may be closed
		hogs = append(hogs, conn)
		return nil
	}
	require.NoError(t, dial())
	const end = `select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
		where application_name = 'ledger' and backend_type = 'client backend'`
	for alone := 0; alone < 5; time.Sleep(5 * time.Millisecond) { // it may be about to take another
		for dial() == nil {
		}
		var ended int
		require.NoError(t, hogs[0].QueryRow(t.Context(), end).Scan(&ended))
		if alone++; ended > 0 {
			alone = 0
		}
	}
	return hogs
}
