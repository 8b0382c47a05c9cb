package pgstore_test

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// ghostly is a server whose only synchronous standby never comes. Every commit
// waits for that standby, except the commits of the returned pool.
func ghostly(t *testing.T) *pgxpool.Pool {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	require.NoError(t, err)
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	look, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	exec(t, look, "alter system set synchronous_standby_names = 'ghost'")
	require.NoError(t, cluster.Restart(t.Context())) // a reload takes effect some time later
	look.Reset()
	return look
}

// waitingStore waits for the standby; look and the stores it makes do not.
func waitingStore(t *testing.T, look *pgxpool.Pool, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	cfg.CloseTimeout = time.Millisecond // a wait for the standby has no end
	return openOn(t, look, cfg, func(p *pgxpool.Config) { p.ConnConfig.RuntimeParams["synchronous_commit"] = "on" })
}

func backendWaiting(t *testing.T, look *pgxpool.Pool) int {
	t.Helper()
	until(t, "a commit waits for the standby", func() bool { return waits(t, look, "SyncRep") })
	return queryRow[int](t, look, "select pid from pg_stat_activity where wait_event = 'SyncRep'")
}

func inBackground(claim func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- claim() }()
	return done
}

// A caller that leaves does not cancel its commit's wait for the standby: a
// cancel would show the record although no standby has it.
func TestFate_callerLeavesWhileCommitWaits(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	req := newClaim()
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { _, _, err := s.Claim(ctx, req); return err })
	pid := backendWaiting(t, look)
	cancel()
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	require.Equal(t, 0, queryRow[int](t, look, "select count(*) from idempotency"))
	require.Equal(t, pid, backendWaiting(t, look), "the wait goes on")
	s.Close()
	require.Equal(t, pid, backendWaiting(t, look), "the wait goes on without its client")
	require.Equal(t, 0, queryRow[int](t, look, "select count(*) from idempotency"))

	giveUpStandby(t, look)
	until(t, "it is durable after all", func() bool { return queryRow[int](t, look, "select count(*) from idempotency") == 1 })
	_, won, err := openOn(t, look, pgstore.Config{}).Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won, "repeated, the claim knows itself")
}

func giveUpStandby(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	exec(t, look, "alter system set synchronous_standby_names = ''")
	exec(t, look, "select pg_reload_conf()")
}

// pgx returns no error for a commit whose wait for the standby was canceled.
func TestFate_waitCanceledByAnother(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	local := openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
	s := waitingStore(t, look, pgstore.Config{})
	cancelWait := func() { exec(t, look, "select pg_cancel_backend("+strconv.Itoa(backendWaiting(t, look))+")") }

	req := newClaim()
	done := inBackground(func() error { _, _, err := s.Claim(t.Context(), req); return err })
	cancelWait()
	require.ErrorIs(t, <-done, store.ErrFateUnknown, "claim")

	o := claim(t, local)
	done = inBackground(func() error { return s.Settle(t.Context(), o, completion) })
	cancelWait()
	require.ErrorIs(t, <-done, store.ErrFateUnknown, "settlement")

	o = claim(t, local)
	tx, _ := begin(t, s)
	done = inBackground(func() error { return tx.Settle(t.Context(), o, completion) })
	cancelWait()
	require.ErrorIs(t, <-done, store.ErrFateUnknown, "settlement in a transaction")

	done = inBackground(func() error {
		_, _, err := s.Cancel(t.Context(), store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour})
		return err
	})
	cancelWait()
	require.ErrorIs(t, <-done, store.ErrFateUnknown, "cancel")
}

// A record that is visible on this server alone must not be replayed.
func TestFate_confirmsReplays(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	local := openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
	o := claim(t, local)
	require.NoError(t, local.Settle(t.Context(), o, completion))
	running := claim(t, local)

	for _, tt := range []struct {
		name    string
		confirm pgstore.ConfirmReplays
		asks    func(s *pgstore.Store, ctx context.Context) error
		waits   bool
	}{
		{"claim", pgstore.ConfirmAuto, claimAgain(o.ID), true},
		{"claim, always", pgstore.ConfirmAlways, claimAgain(o.ID), true},
		{"claim, never", pgstore.ConfirmNever, claimAgain(o.ID), false},
		{"claim of a key in progress", pgstore.ConfirmAuto, claimAgain(running.ID), false},
		{"read", pgstore.ConfirmAuto, func(s *pgstore.Store, ctx context.Context) error { _, err := s.Read(ctx, o.ID); return err }, true},
		{"completion repeated by its owner", pgstore.ConfirmAuto, func(s *pgstore.Store, ctx context.Context) error { return s.Settle(ctx, o, completion) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := waitingStore(t, look, pgstore.Config{ConfirmReplays: tt.confirm})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := inBackground(func() error { return tt.asks(s, ctx) })
			if !tt.waits {
				require.NoError(t, <-done)
				return
			}
			pid := backendWaiting(t, look)
			cancel()
			require.ErrorIs(t, <-done, store.ErrFateUnknown)
			s.Close()
			exec(t, look, "select pg_terminate_backend($1)", pid)
			until(t, "nobody waits", func() bool { return !waits(t, look, "SyncRep") })
		})
	}
}

func claimAgain(id store.ID) func(*pgstore.Store, context.Context) error {
	return func(s *pgstore.Store, ctx context.Context) error { _, _, err := s.Claim(ctx, claimOf(id)); return err }
}

// The backend dies between a commit that is on disk and its answer. The caller
// gets ErrFateUnknown, asks again with its token, and finds its own record.
func TestFate_backendKilledDuringCommit(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	req := newClaim()
	done := inBackground(func() error { _, _, err := s.Claim(t.Context(), req); return err })
	require.NoError(t, syscall.Kill(backendWaiting(t, look), syscall.SIGKILL))
	require.ErrorIs(t, <-done, store.ErrFateUnknown)

	local := reopened(t, look)
	r, won, err := local.Claim(t.Context(), req)
	require.NoError(t, err)
	require.True(t, won)
	require.EqualValues(t, 1, r.Fence)

	// The same holds for the commit of a transaction with its rows.
	o := store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}
	tx, _ := begin(t, s)
	done = inBackground(func() error { return tx.Settle(t.Context(), o, completion) })
	require.NoError(t, syscall.Kill(backendWaiting(t, look), syscall.SIGKILL))
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	require.NoError(t, reopened(t, look).Settle(t.Context(), o, completion), "it was durable")

	// The same holds for a method that sends several statements and its own COMMIT.
	undo := store.CancelRequest{ID: random(), Token: random(), Keep: time.Hour}
	done = inBackground(func() error { _, _, err := s.Cancel(t.Context(), undo); return err })
	require.NoError(t, syscall.Kill(backendWaiting(t, look), syscall.SIGKILL))
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	r, err = reopened(t, look).Read(t.Context(), undo.ID)
	require.NoError(t, err)
	require.Equal(t, store.StateCancelled, r.State, "it was durable")
}

// reopened waits until the server, which lost a backend and so restarts, is
// back, and returns a store that does not wait for the standby.
func reopened(t *testing.T, look *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	until(t, "the server has restarted", func() bool { // the restart ends the session of look
		return look.QueryRow(t.Context(), "select 1").Scan(nil) != nil
	})
	until(t, "the server is back", func() bool { return look.Ping(t.Context()) == nil })
	return openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
}
