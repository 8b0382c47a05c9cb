package pgstore_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// distributedUsers is users on distributed tables.
func distributedUsers(t *testing.T, cfg server.Config) (*server.Guard, *pgxpool.Pool) {
	t.Helper()
	pool := distributedPool(t)
	exec(t, pool, "create table users (name text constraint one_name unique, late int)")
	exec(t, pool, "select create_distributed_table('users', 'name', colocate_with => 'none')")
	exec(t, pool, "insert into users values ('ann', 1)")
	g, err := server.NewGuard(openOn(t, pool, pgstore.Config{}), server.Unscoped, cfg)
	require.NoError(t, err)
	return g, pool
}

// Queued statements are one transaction with the answer, on however many nodes the rows are.
func TestDistributed_queue(t *testing.T) {
	t.Parallel()
	pgkittest.CitusURL(t)
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		headers []string
		status  int // of the first call
		bobs    int
	}{
		{name: "created", handler: queueBob, status: 201, bobs: 1},
		{name: "nothing queued", handler: func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "nothing") }, status: 200},
		{name: "500", handler: func(rw http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), insertBob))
			rw.WriteHeader(http.StatusInternalServerError)
		}, status: 500},
		{name: "rolled back", handler: func(rw http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), insertBob))
			rw.WriteHeader(http.StatusPaymentRequired)
		}, status: 402},
		{name: "kept", handler: func(rw http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), insertBob), server.Settle(r.Context(), server.KeepRows()))
			rw.WriteHeader(http.StatusPaymentRequired)
		}, status: 402, bobs: 1},
		{name: "violation", handler: func(_ http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), insertBob), pgstore.Queue(r.Context(), insertAnn))
		}, status: 500},
		{name: "no such table", handler: func(_ http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), insertBob), pgstore.Queue(r.Context(), "insert into nowhere values ($1)", 1))
		}, status: 500},
		{
			name: "sent too long ago", handler: queueBob, status: 412,
			headers: []string{wire.HeaderFirstSent, time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, look := distributedUsers(t, server.Config{})
			h := routeOn(t, g, server.Route{Effect: server.Transactional}, tt.handler)
			for range 2 {
				require.Equal(t, tt.status, postTo(h, "k", tt.headers...).Code)
				require.Equal(t, tt.bobs, queryRow[int](t, look, countUsers, "bob"))
			}
		})
	}
}

// Two processes get the same calls at once. Each key has one effect and one answer.
func TestDistributed_queueDuplicates(t *testing.T) {
	t.Parallel()
	look := distributedLedger(t)
	const keys, processes, callers = 40, 2, 4
	var handlers []http.Handler
	for range processes {
		g, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, server.Config{})
		require.NoError(t, err)
		handlers = append(handlers, routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
			must(pgstore.Queue(r.Context(), "insert into effect values ($1)", r.Header.Get(wire.HeaderKey)))
			fmt.Fprint(rw, random())
		}))
	}
	var wg sync.WaitGroup
	answers := make([][]string, keys)
	var mu sync.Mutex
	for n := range keys {
		for _, h := range handlers {
			for range callers {
				wg.Go(func() {
					w := postTo(h, fmt.Sprint("key-", n), wire.HeaderPrefer, "wait=30")
					mu.Lock()
					defer mu.Unlock()
					answers[n] = append(answers[n], fmt.Sprint(w.Code, w.Body))
				})
			}
		}
	}
	wg.Wait()
	for n, all := range answers {
		require.True(t, strings.HasPrefix(all[0], "200"), all[0])
		for _, a := range all {
			require.Equal(t, all[0], a, n)
		}
	}
	require.Equal(t, []int{keys, keys}, []int{queryRow[int](t, look, "select count(*) from effect"), queryRow[int](t, look, "select count(distinct what) from effect")})
}
