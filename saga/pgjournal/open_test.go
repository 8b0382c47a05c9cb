package pgjournal_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestOpen_rejectsItsConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  pgjournal.Config
		text string
	}{
		{"schema", pgjournal.Config{Schema: "public; drop table x"}, "Schema"},
		{"system schema", pgjournal.Config{Schema: "pg_catalog"}, "Schema"},
		{"confirm", pgjournal.Config{Confirm: 99}, "Confirm 99"},
		{"lock timeout", pgjournal.Config{LockTimeout: -1}, "LockTimeout -1ns"},
		{"long lock timeout", pgjournal.Config{LockTimeout: 2 * time.Hour}, "LockTimeout 2h"},
		{"close timeout", pgjournal.Config{CloseTimeout: -1}, "CloseTimeout -1ns"},
		{"detached", pgjournal.Config{MaxDetached: -1}, "MaxDetached -1"},
		{"flushes", pgjournal.Config{MaxFlushes: -1}, "MaxFlushes -1"},
		{"flushes without combining", pgjournal.Config{SeparateCommits: true, MaxFlushes: 2}, "MaxFlushes 2 has no meaning with SeparateCommits"},
		{"queued", pgjournal.Config{MaxQueued: -1}, "MaxQueued -1"},
		{"queue without combining", pgjournal.Config{SeparateCommits: true, MaxQueued: 9}, "MaxQueued 9 has no meaning with SeparateCommits"},
	}
	nowhere, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	for _, tt := range tests {
		_, err := pgjournal.Open(t.Context(), nowhere, tt.cfg)
		require.ErrorIs(t, err, pgjournal.ErrConfig, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
		require.NotContains(t, err.Error(), "pgkit", tt.name)
	}
	nowhere.MaxConns = 3
	_, err = pgjournal.Open(t.Context(), nowhere, pgjournal.Config{MaxFlushes: 4})
	require.ErrorIs(t, err, pgjournal.ErrConfig)
	_, err = pgjournal.Open(t.Context(), nil, pgjournal.Config{})
	require.ErrorIs(t, err, pgjournal.ErrConfig)
	_, err = pgjournal.New(nil, pgjournal.Config{})
	require.ErrorIs(t, err, pgjournal.ErrNotPrepared)
	_, err = pgjournal.New(pgtest.NewPool(t, nil), pgjournal.Config{})
	require.ErrorIs(t, err, pgjournal.ErrNotPrepared)
}

func TestOpen_checksTheServer(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	open := func(cfg pgjournal.Config) error {
		j, err := pgjournal.Open(t.Context(), look.Config(), cfg)
		if err == nil {
			j.Close()
		}
		return err
	}
	lax := pgjournal.Config{AllowNonDurable: true}
	latest, err := migrations.Latest()
	require.NoError(t, err)
	wantSchema := func(have int, kind error, where string) {
		t.Helper()
		schema := new(component.SchemaError)
		err := open(lax)
		require.ErrorIs(t, err, kind)
		require.ErrorAs(t, err, &schema)
		require.Equal(t, have, schema.Have)
		require.Equal(t, latest, schema.Want)
		want := fmt.Sprintf("saga in %s has version %d, want %d", where, have, latest)
		if have == 0 {
			want = fmt.Sprintf("there are no tables of saga in %s: let the deploy run fanonce migrate up", where)
		}
		require.ErrorContains(t, schema, want)
	}
	wantSchema(0, pgjournal.ErrSchemaMissing, "the search_path")
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""))
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""), "again: nothing to do")
	require.ErrorIs(t, pgjournal.Migrate(t.Context(), look, "pg_mine"), pgjournal.ErrConfig, "a name that Postgres keeps for itself")
	require.NoError(t, open(lax))
	require.ErrorIs(t, open(pgjournal.Config{}), pgjournal.ErrNotDurable, "the test cluster runs without fsync")
	exec(t, look, "insert into saga_version (version, oldest) values (99, $1)", latest)
	require.NoError(t, open(lax), "newer, and this program can use it")
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""), "as when it starts again during a deploy")
	exec(t, look, "update saga_version set oldest = $1 where version = 99", latest+1)
	wantSchema(99, pgjournal.ErrSchemaNewer, `schema "public"`)
	exec(t, look, "delete from saga_version where version = 99")
	require.NoError(t, open(lax), "a deploy that was taken back")
	require.NoError(t, migrations.Down(t.Context(), look, "", 0))
	require.Zero(t, queryRow[int](t, look, "select count(*) from pg_tables where schemaname = 'public'"))
}

// A value that cannot be stored is refused before any statement is sent: no server can be
// reached.
func TestJournal_badArguments(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	pgjournal.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	j, err := pgjournal.New(pool, pgjournal.Config{})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	ctx, distant := t.Context(), time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := func(change func(req *journal.StartRequest)) func() error {
		return func() error {
			req := newRequest(journal.EngineID{1})
			change(&req)
			_, _, err := j.Start(ctx, req)
			return err
		}
	}
	step := func(w journal.Write) func() error { return func() error { return j.Append(ctx, journal.Owner{}, w) } }
	change := func(c journal.Change) func() error {
		return func() error { _, _, err := j.Change(ctx, c); return err }
	}
	tests := []struct {
		name string
		do   func() error
	}{
		{"plan of a version that is none", func() error { _, err := j.Plan(ctx, journal.PlanRecord{Version: -1}); return err }},
		{"plan of no name", func() error { _, err := j.Plan(ctx, journal.PlanRecord{Name: "\xff"}); return err }},
		{"beat of nobody", func() error { return j.Heartbeat(ctx, journal.EngineID{}, time.Second) }},
		{"beat for no time", func() error { return j.Heartbeat(ctx, journal.EngineID{1}, 0) }},
		{"beat for ever", func() error { return j.Heartbeat(ctx, journal.EngineID{1}, math.MaxInt64) }},
		{"start without a key", begin(func(req *journal.StartRequest) { req.Key = childkey.Key{} })},
		{"start of a scope that is no text", begin(func(req *journal.StartRequest) { req.Scope = "a\x00" })},
		{"start of a version that is none", begin(func(req *journal.StartRequest) { req.Version = math.MaxInt64 })},
		{"append to nothing", step(journal.Write{Status: 9})},
		{"append a distant wake-up", step(journal.Write{WakeAt: distant})},
		{"append a distant deadline", step(journal.Write{DeadlineAt: distant})},
		{"append that keeps for less than nothing", step(journal.Write{Keep: -1})},
		{"claim nothing", func() error { _, err := j.Claim(ctx, journal.ClaimRequest{}); return err }},
		{"claim fewer than none of a plan", func() error { _, err := j.Claim(ctx, journal.ClaimRequest{Limit: 1, PerPlan: -1}); return err }},
		{"list nothing", func() error { _, err := j.List(ctx, journal.ListRequest{}); return err }},
		{"list no engine", func() error { _, err := j.List(ctx, journal.ListRequest{Limit: 1}); return err }},
		{"sweep nothing", func() error { _, err := j.Sweep(ctx, 0); return err }},
		{"change to nothing", change(journal.Change{})},
		{"change by nobody that can be written", change(journal.Change{Status: journal.Running, By: journal.Audit{Actor: "\xff"}})},
		{"change with a distant deadline", change(journal.Change{Status: journal.Running, Deadline: math.MaxInt64})},
		{"prune what is not old", func() error { _, err := j.PruneAudit(ctx, 0); return err }},
	}
	for _, tt := range tests {
		require.ErrorIs(t, tt.do(), pgjournal.ErrArgument, tt.name)
	}
}

func TestPruneAudit(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, `insert into saga_audit (at, saga, verb, step, actor, reason, from_status, to_status, fence)
		select clock_timestamp() - interval '2 days', gen_random_uuid(), 'retry', '', 'ann', 'why', 5, 1, 1 from generate_series(1, 2500)`)
	r := start(t, j, beat(t, j, time.Hour))
	_, _, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: 1, Status: journal.Running, By: someone})
	require.NoError(t, err)
	n, err := j.PruneAudit(t.Context(), 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 2500, n)
	log, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 1)
}

// The sweep deletes leases that ended long ago, except the leases of engines that own sagas. It
// gives a lease to an engine that owns a saga and never had a lease. Without this lease claims
// would not find the saga.
func TestSweep_leases(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	start(t, j, newEngine()) // of an engine that never beat
	halted := start(t, j, beat(t, j, time.Hour))
	write(t, j, halted, journal.Write{Status: journal.Stuck})
	beat(t, j, time.Hour)
	exec(t, look, "update saga_engine set lease_until = clock_timestamp() - interval '25 hours'")
	live := beat(t, j, time.Hour)
	claim := func() int {
		claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: live, Plans: []journal.PlanHash{aPlan}, Limit: 10})
		require.NoError(t, err)
		return len(claimed)
	}
	require.Zero(t, claim())
	n, err := j.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from saga_engine"), "the living one, and the one that never beat; a stuck saga needs none")
	require.Equal(t, 1, claim())
}

// No error contains a saga's content.
func TestErrors_tellNoSecrets(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, "alter table saga add constraint canary check (octet_length(input) < 30 or result is not null)")
	key := childkey.MustParse("canary-key")
	req := newRequest(journal.EngineID{1})
	req.ID, req.Key, req.Scope, req.Input = journal.IDOf("canary-scope", "checkout", key), key, "canary-scope", []byte(`{"card":"canary-input-canary-input"}`)
	_, _, err := j.Start(t.Context(), req)
	require.Error(t, err)
	r := start(t, j, beat(t, j, time.Hour))
	exec(t, look, "drop table saga_result")
	more := j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{withResult("a.b", []byte(strings.Repeat("canary", 8000)))}})
	require.Error(t, more)
	require.NotContains(t, err.Error()+more.Error(), "canary-")
	require.NotContains(t, more.Error(), "canarycanary")
}

func TestOpenURL(t *testing.T) {
	t.Parallel()
	cfg := func(migrate bool) pgjournal.Config { return pgjournal.Config{AllowNonDurable: true, Migrate: migrate} }
	pgkittest.TestOpenURL(t, pgkittest.Opener{
		OpenURL: func(ctx context.Context, url string, migrate bool) (pgkittest.Opened, error) {
			return pgjournal.OpenURL(ctx, url, cfg(migrate))
		},
		New: func(pool *pgxpool.Pool, migrate bool) error {
			_, err := pgjournal.New(pool, cfg(migrate))
			return err
		},
		Prepare: pgjournal.Prepare, ErrConfig: pgjournal.ErrConfig, ErrSchemaMissing: pgjournal.ErrSchemaMissing,
	})
}
