package pgstore_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A handler calls Barrier behind a savepoint, and goes back to the savepoint. Postgres gives up the lock on the forward
// record then. Even if the record is gone by the end of the undo, the forward call never runs after it.
func TestBarrier_behindASavepoint(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	add := routeOn(t, g, server.Route{Effect: server.Transactional}, queueBob)
	require.Equal(t, http.StatusCreated, postTo(add, "k").Code)
	undo := routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		point, err := pgstore.Tx(ctx).Begin(ctx)
		must(err)
		fate, err := server.Barrier(ctx)
		must(err, point.Rollback(ctx))
		free := queryRow[int](t, look, "with d as (delete from idempotency where key = (select key from idempotency where state = $1 for update skip locked) returning 1) select count(*) from d", server.StateCompleted)
		must(pgstore.Queue(ctx, "delete from users where name = $1", "bob"))
		fmt.Fprint(rw, fate, ", ", free, " forgotten")
	})
	require.Equal(t, "ran, 1 forgotten", postTo(undo, "undo-k", wire.HeaderCancels, "k").Body.String())
	other, err := server.NewGuard(openOn(t, look, pgstore.Config{}), server.Unscoped, server.Config{}) // without a cache
	require.NoError(t, err)
	requireCode(t, postTo(routeOn(t, other, server.Route{Effect: server.Transactional}, queueBob), "k"), wire.KeyCancelled)
	require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
}
