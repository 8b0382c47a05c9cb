package pgstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

// An undo holds the forward key for the length of its transaction. The leases
// of all other keys of the process must not end because of that.
func TestRenew_passesOverALockedKey(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{LockTimeout: 20 * time.Millisecond})
	held, free, stale := claim(t, s), claim(t, s), claim(t, s)
	stale.Token = random()
	tx, ctx := begin(t, s)
	_, existed, err := tx.Cancel(ctx, server.CancelRequest{ID: held.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.True(t, existed)

	_, err = s.Renew(t.Context(), []server.Owner{held, free, stale}, 10*time.Hour)
	require.Equal(t, pgkit.FailureLockTimeout, pgkit.Classify(err), "error = %v", err)
	const renewed = "select lease_until > clock_timestamp() + interval '1 h' from idempotency where key = $1"
	require.True(t, queryRow[bool](t, look, renewed, [16]byte(free.ID)))

	require.NoError(t, tx.Rollback(t.Context()))
	lost, err := s.Renew(t.Context(), []server.Owner{held, free, stale}, 10*time.Hour)
	require.NoError(t, err)
	require.Equal(t, []server.Owner{stale}, lost)
	require.True(t, queryRow[bool](t, look, renewed, [16]byte(held.ID)))
}

// The bound is for the store's own waits. What the handler does next has the
// one that its database gives it.
func TestTx_Cancel_leavesTheLockTimeoutAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "set local lock_timeout = '7s'")
	require.NoError(t, err)
	_, _, err = tx.Cancel(ctx, server.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	var got string
	require.NoError(t, pgstore.Tx(ctx).QueryRow(ctx, "show lock_timeout").Scan(&got))
	require.Equal(t, "7s", got)
}
