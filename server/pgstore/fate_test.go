package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A ghost is a server whose synchronous standby is not there: every COMMIT waits
// for it, until it is given up.
func ghost(t *testing.T) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s, look := openAt(t, cluster)
	t.Cleanup(func() { haunt(t, look, false) })
	return s, look
}

// haunt takes the standby away, or forgets it.
func haunt(t *testing.T, look *pgxpool.Pool, on bool) {
	t.Helper()
	name := ""
	if on {
		name = "ghost"
	}
	ctx := context.WithoutCancel(t.Context())
	_, err := look.Exec(ctx, "alter system set synchronous_standby_names = '"+name+"'")
	require.NoError(t, err)
	_, err = look.Exec(ctx, "select pg_reload_conf()")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var now string
		return look.QueryRow(ctx, "select current_setting('synchronous_standby_names')").Scan(&now) == nil && now == name
	}, 30*time.Second, 10*time.Millisecond)
}

const waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"

func awaitWaiting(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool { return queryRow[int](t, look, waiting) == 1 }, 30*time.Second, 5*time.Millisecond)
}

// The caller leaves at its deadline. The COMMIT goes on waiting: canceling it
// would make the row visible though no standby has it.
func TestFate_callerLeavesWhileCommitWaits(t *testing.T) {
	t.Parallel()
	s, look := ghost(t)
	o := claim(t, s)
	haunt(t, look, true)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- s.Settle(ctx, o, completion) }()
	awaitWaiting(t, look)
	cancel()
	require.ErrorIs(t, <-failed, server.ErrFateUnknown)
	require.Equal(t, 1, queryRow[int](t, look, waiting), "it was left alone")
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from idempotency where state = 1"), "and is not visible")
	haunt(t, look, false)
	require.Eventually(t, func() bool {
		r, err := s.Read(t.Context(), o.ID)
		return err == nil && r.State == server.StateCompleted
	}, 30*time.Second, 10*time.Millisecond, "it became durable later")
	require.NoError(t, s.Settle(t.Context(), o, completion), "repeated: it knows itself")
}

// Somebody else canceled the wait: pgx reports success, and only a warning tells
// that no standby has the row.
func TestFate_waitCanceledByAnother(t *testing.T) {
	t.Parallel()
	s, look := ghost(t)
	o := claim(t, s)
	haunt(t, look, true)
	failed := make(chan error, 1)
	go func() { failed <- s.Settle(t.Context(), o, completion) }()
	awaitWaiting(t, look)
	require.True(t, queryRow[bool](t, look, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"))
	require.ErrorIs(t, <-failed, server.ErrFateUnknown)

	// It is visible here, and not confirmed: a read that lets it be replayed
	// has to wait for the standby as well.
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(ctx, o.ID)
		read <- err
	}()
	awaitWaiting(t, look)
	cancel()
	require.Error(t, <-read)
}

// A transaction's COMMIT is no different.
func TestFate_transactionLosesItsServer(t *testing.T) {
	t.Parallel()
	s, look := ghost(t)
	exec(t, look, "create table t (n int)")
	o := claim(t, s)
	haunt(t, look, true)
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into t values (1)")
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() { failed <- tx.Settle(t.Context(), o, completion) }()
	awaitWaiting(t, look)
	require.True(t, queryRow[bool](t, look, "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"))
	require.ErrorIs(t, <-failed, server.ErrFateUnknown)
}

// A claim whose answer was lost is sent again with its token, and knows itself.
func TestFate_claimRepeated(t *testing.T) {
	t.Parallel()
	s, look := ghost(t)
	claim(t, s)
	haunt(t, look, true)
	req := newClaim()
	failed := make(chan error, 1)
	go func() {
		_, _, err := s.Claim(t.Context(), req)
		failed <- err
	}()
	awaitWaiting(t, look)
	require.True(t, queryRow[bool](t, look, "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"))
	require.ErrorIs(t, <-failed, server.ErrFateUnknown)
	haunt(t, look, false)
	r, won, err := s.Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won)
	require.EqualValues(t, 1, r.Fence)
}
