package pgjournal_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// ghostly is a server whose only synchronous standby never comes: every commit
// waits for it, but those of the pool that it returns to look with.
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
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""))
	exec(t, look, "alter system set synchronous_standby_names = 'ghost'")
	require.NoError(t, cluster.Restart(t.Context())) // a reload takes effect some time later
	look.Reset()
	return look
}

// waiting is a journal whose commits wait for the standby.
func waiting(t *testing.T, look *pgxpool.Pool, cfg pgjournal.Config) *pgjournal.Journal {
	t.Helper()
	cfg.CloseTimeout = time.Millisecond // what waits for the standby waits for ever
	return openOn(t, look, cfg, func(p *pgxpool.Config) { p.ConnConfig.RuntimeParams["synchronous_commit"] = "on" })
}

func backendWaiting(t *testing.T, look *pgxpool.Pool) int {
	t.Helper()
	until(t, "a commit waits for the standby", func() bool {
		return queryRow[bool](t, look, "select exists (select from pg_stat_activity where wait_event = 'SyncRep')")
	})
	return queryRow[int](t, look, "select pid from pg_stat_activity where wait_event = 'SyncRep'")
}

func inBackground(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// A caller that leaves a commit does not cancel its wait: that would show the saga
// though no standby has it. Repeated, the start knows itself, and waits as well.
func TestFate_callerLeavesWhileCommitWaits(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	local := openOn(t, look, pgjournal.Config{Confirm: pgjournal.ConfirmNever})
	j := waiting(t, look, pgjournal.Config{})
	req := newRequest(beat(t, local, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { _, _, err := j.Start(ctx, req); return err })
	pid := backendWaiting(t, look)
	cancel()
	require.ErrorIs(t, <-done, journal.ErrFateUnknown)
	require.Zero(t, queryRow[int](t, look, "select count(*) from saga"))
	require.Equal(t, pid, backendWaiting(t, look), "the wait goes on")
	j.Close()
	require.Equal(t, pid, backendWaiting(t, look), "the wait goes on without its client")

	exec(t, look, "alter system set synchronous_standby_names = ''")
	exec(t, look, "select pg_reload_conf()")
	until(t, "it is durable after all", func() bool { return queryRow[int](t, look, "select count(*) from saga") == 1 })
	_, created, err := local.Start(t.Context(), req)
	require.NoError(t, err)
	require.True(t, created, "repeated, the start knows itself")
}

// pgx returns no error for a commit whose wait somebody canceled: the write is visible
// here, and no standby has it. The journal does not rely on it before it is confirmed. It hears
// of it also where somebody left the connections with client_min_messages = error.
func TestFate_waitCanceledByAnother(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	for _, messages := range []string{"notice", "error"} {
		t.Run(messages, func(t *testing.T) { waitsCanceledByAnother(t, look, messages) })
	}
}

func waitsCanceledByAnother(t *testing.T, look *pgxpool.Pool, messages string) {
	local := openOn(t, look, pgjournal.Config{Confirm: pgjournal.ConfirmNever})
	j := openOn(t, look, pgjournal.Config{CloseTimeout: time.Millisecond}, func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
		p.ConnConfig.RuntimeParams["client_min_messages"] = messages
	})
	canceled := func(what string, do func() error) {
		t.Helper()
		done := inBackground(do)
		exec(t, look, "select pg_cancel_backend("+strconv.Itoa(backendWaiting(t, look))+")")
		require.ErrorIs(t, <-done, journal.ErrFateUnknown, what)
		until(t, "nobody waits", func() bool {
			return queryRow[bool](t, look, "select not exists (select from pg_stat_activity where wait_event = 'SyncRep')")
		})
	}
	engine := beat(t, local, time.Hour)
	req := newRequest(engine)
	begin := func() error { _, _, err := j.Start(t.Context(), req); return err }
	canceled("start", begin)
	canceled("start, repeated: its calls are not sent yet", begin)

	r := start(t, local, engine)
	w := journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}}
	step := func() error { return j.Append(t.Context(), ownerOf(r), w) }
	canceled("append", step)
	canceled("append, repeated", step)
	last := journal.Write{Revision: 3, Status: journal.Completed, Keep: time.Hour}
	canceled("finish", func() error { return j.Append(t.Context(), ownerOf(r), last) })
	canceled("heartbeat", func() error { return j.Heartbeat(t.Context(), engine, time.Hour) })
	start(t, local, journal.EngineID{})
	canceled("claim", func() error {
		_, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 1})
		return err
	})
	canceled("change", func() error {
		_, _, err := j.Change(t.Context(), journal.Change{ID: req.ID, Revision: 1, Status: journal.Running, By: someone})
		return err
	})
	canceled("leave", func() error { return j.Leave(t.Context(), engine) })
}

// A finished saga may be visible on this server alone. Then its result must not be handed out.
func TestFate_confirmsWhatIsOver(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	local := openOn(t, look, pgjournal.Config{Confirm: pgjournal.ConfirmNever})
	engine := beat(t, local, time.Hour)
	running, over := start(t, local, engine), start(t, local, engine)
	over = write(t, local, over, journal.Write{Status: journal.Completed, Keep: time.Hour})
	for _, tt := range []struct {
		name    string
		confirm pgjournal.Confirm
		id      journal.ID
		waits   bool
	}{
		{"running", pgjournal.ConfirmAuto, running.ID, false},
		{"over", pgjournal.ConfirmAuto, over.ID, true},
		{"over, always", pgjournal.ConfirmAlways, over.ID, true},
		{"over, never", pgjournal.ConfirmNever, over.ID, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := waiting(t, look, pgjournal.Config{Confirm: tt.confirm})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := inBackground(func() error { _, err := j.Read(ctx, tt.id); return err })
			if !tt.waits {
				require.NoError(t, <-done)
				return
			}
			pid := backendWaiting(t, look)
			cancel()
			require.ErrorIs(t, <-done, journal.ErrFateUnknown)
			j.Close()
			exec(t, look, "select pg_terminate_backend($1)", pid)
			until(t, "nobody waits", func() bool {
				return queryRow[bool](t, look, "select not exists (select from pg_stat_activity where wait_event = 'SyncRep')")
			})
		})
	}
}
