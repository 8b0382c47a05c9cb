package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
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

// A route with OneCommit is like any other, and queued statements are one transaction with the answer, on however many
// nodes the rows are.
func TestDistributed_oneCommit(t *testing.T) {
	t.Parallel()
	pgkittest.CitusURL(t)
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		headers []string
		status  int // of the first call, and whether it left its row
		stays   bool
	}{
		{name: "created", handler: queueBob, status: 201, stays: true},
		{name: "nothing queued", handler: func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "nothing") }, status: 200},
		{name: "500", handler: settled(500), status: 500},
		{name: "rolled back", handler: settled(402, server.Rollback()), status: 402},
		{name: "violation", handler: refuse(insertAnn), status: 500},
		{name: "no such table", handler: refuse("insert into nowhere values ($1)", 1), status: 500},
		{
			name: "sent too long ago", handler: queueBob, status: 412,
			headers: []string{wire.HeaderFirstSent, time.Now().Add(-30 * 24 * time.Hour).UTC().Format(time.RFC3339)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ordinary := observed(t, distributedUsers, server.Route{Effect: server.Transactional}, tt.handler, server.Config{}, tt.headers)
			rows := 1
			if tt.stays {
				rows = 2
			}
			require.Contains(t, ordinary[0], fmt.Sprint("first: ", tt.status, " "))
			require.Contains(t, ordinary[1], fmt.Sprint(rows, " rows, "))
			require.Equal(t, ordinary, observed(t, distributedUsers, oneCommit, tt.handler, server.Config{}, tt.headers))
		})
	}
}

// Two processes get the same calls at once.
func TestDistributed_oneCommitDuplicates(t *testing.T) {
	t.Parallel()
	testDuplicatesOfOneCommit(t, distributedLedger(t))
}

// A duplicate of an open transaction waits for its lock on a worker, for a moment. An undo does too.
func TestDistributed_oneCommitIsOpen(t *testing.T) {
	t.Parallel()
	g, look := distributedUsers(t, server.Config{})
	other, err := server.NewGuard(openOn(t, look, pgstore.Config{LockTimeout: 200 * time.Millisecond}), server.Unscoped, server.Config{})
	require.NoError(t, err)
	held, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), "update users set late = 2 where name = 'ann'")
	require.NoError(t, err)
	handler := func(rw http.ResponseWriter, r *http.Request) {
		must(pgstore.Queue(r.Context(), "update users set late = late + 1 where name = $1", "ann"))
		queueBob(rw, r)
	}
	first := inFlight(routeOn(t, g, oneCommit, handler), "k")
	until(t, "the work waits for a row", func() bool {
		return queryRow[int](t, look, "select count(*) from citus_lock_waits where blocked_statement like '%late + 1%'") > 0
	})
	began := time.Now()
	requireCode(t, postTo(routeOn(t, other, oneCommit, handler), "k", wire.HeaderPrefer, "wait=0"), wire.InProgress)
	require.Less(t, time.Since(began), 4*store.MaxLockWait)
	require.NoError(t, held.Rollback(context.WithoutCancel(t.Context())))
	require.Equal(t, http.StatusCreated, (<-first).Code)
	w := postTo(routeOn(t, other, oneCommit, handler), "k")
	require.Equal(t, []string{"201", "made", "true"}, []string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get(wire.HeaderReplayed)})
	require.Equal(t, 2, queryRow[int](t, look, "select late from users where name = 'ann'"))
}
