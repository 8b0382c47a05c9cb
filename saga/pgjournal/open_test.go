package pgjournal_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgkit"
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
		{"parked", pgjournal.Config{MaxParked: -1}, "MaxParked -1"},
		{"combining", pgjournal.Config{Combining: 7}, "Combining 7"},
		{"flushes", pgjournal.Config{MaxFlushes: -1}, "MaxFlushes -1"},
		{"flushes without combining", pgjournal.Config{Combining: pgjournal.CombiningOff, MaxFlushes: 2}, "MaxFlushes 2 with Combining 1"},
		{"queued", pgjournal.Config{MaxQueued: -1}, "MaxQueued -1"},
		{"queue without combining", pgjournal.Config{Combining: pgjournal.CombiningOff, MaxQueued: 9}, "MaxQueued 9 with Combining 1"},
	}
	nowhere, err := pgxpool.ParseConfig("postgres://127.0.0.1:1/none")
	require.NoError(t, err)
	for _, tt := range tests {
		_, err := pgjournal.Open(t.Context(), nowhere, tt.cfg)
		require.ErrorIs(t, err, pgjournal.ErrConfig, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
	}
	nowhere.MaxConns = 3
	_, err = pgjournal.Open(t.Context(), nowhere, pgjournal.Config{MaxFlushes: 4})
	require.ErrorIs(t, err, pgjournal.ErrConfig)
	_, err = pgjournal.Open(t.Context(), nil, pgjournal.Config{})
	require.ErrorIs(t, err, pgjournal.ErrConfig)
	_, err = pgjournal.New(nil, pgjournal.Config{})
	require.ErrorIs(t, err, pgkit.ErrNotPrepared)
	_, err = pgjournal.New(pgtest.NewPool(t, nil), pgjournal.Config{})
	require.ErrorIs(t, err, pgkit.ErrNotPrepared)
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
	latest, err := pgjournal.Migrations.Latest()
	require.NoError(t, err)
	wantSchema := func(have int, kind error) {
		t.Helper()
		schema := new(pgkit.SchemaError)
		err := open(lax)
		require.ErrorIs(t, err, kind)
		require.ErrorAs(t, err, &schema)
		require.Equal(t, have, schema.Have)
		require.Equal(t, latest, schema.Want)
		require.ErrorContains(t, schema, fmt.Sprintf("saga in the search_path has version %d, want %d", have, latest))
	}
	wantSchema(0, pgkit.ErrSchemaMissing)
	require.NoError(t, pgjournal.Migrate(t.Context(), look))
	require.NoError(t, pgjournal.Migrate(t.Context(), look), "again: nothing to do")
	require.NoError(t, open(lax))
	require.ErrorIs(t, open(pgjournal.Config{}), pgkit.ErrNotDurable, "the test cluster runs without fsync")
	exec(t, look, "insert into saga_version (version, oldest) values (99, $1)", latest)
	require.NoError(t, open(lax), "newer, and this program can use it")
	require.NoError(t, pgjournal.Migrate(t.Context(), look), "as when it starts again during a deploy")
	exec(t, look, "update saga_version set oldest = $1 where version = 99", latest+1)
	wantSchema(99, pgkit.ErrSchemaNewer)
	exec(t, look, "delete from saga_version where version = 99")
	for older := latest - 1; older > 0; older-- {
		require.NoError(t, pgjournal.Migrations.Down(t.Context(), look, "", older))
		wantSchema(older, pgkit.ErrSchemaOlder)
	}
	require.NoError(t, pgjournal.Migrate(t.Context(), look))
	require.NoError(t, open(lax), "brought up to date")
	require.NoError(t, pgjournal.Migrations.Down(t.Context(), look, "", 0))
	require.Zero(t, queryRow[int](t, look, "select count(*) from pg_tables where schemaname = 'public'"))
}

// What cannot be stored is refused before anything is sent: there is no server.
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
	begin := func(change func(req *saga.StartRequest)) func() error {
		return func() error {
			req := newRequest(saga.EngineID{1})
			change(&req)
			_, _, err := j.Start(ctx, req)
			return err
		}
	}
	step := func(w saga.Write) func() error { return func() error { return j.Append(ctx, saga.Owner{}, w) } }
	change := func(c saga.Change) func() error {
		return func() error { _, _, err := j.Change(ctx, c); return err }
	}
	tests := []struct {
		name string
		do   func() error
	}{
		{"plan of a version that is none", func() error { _, err := j.Plan(ctx, saga.PlanRecord{Version: -1}); return err }},
		{"plan of no name", func() error { _, err := j.Plan(ctx, saga.PlanRecord{Name: "\xff"}); return err }},
		{"beat of nobody", func() error { return j.Beat(ctx, saga.EngineID{}, time.Second) }},
		{"beat for no time", func() error { return j.Beat(ctx, saga.EngineID{1}, 0) }},
		{"beat for ever", func() error { return j.Beat(ctx, saga.EngineID{1}, math.MaxInt64) }},
		{"start without a key", begin(func(req *saga.StartRequest) { req.Key = childkey.Key{} })},
		{"start of a scope that is no text", begin(func(req *saga.StartRequest) { req.Scope = "a\x00" })},
		{"start of a version that is none", begin(func(req *saga.StartRequest) { req.Version = math.MaxInt64 })},
		{"append to nothing", step(saga.Write{Status: 9})},
		{"append a distant wake-up", step(saga.Write{WakeAt: distant})},
		{"append a distant deadline", step(saga.Write{DeadlineAt: distant})},
		{"append that keeps for less than nothing", step(saga.Write{Keep: -1})},
		{"claim nothing", func() error { _, err := j.Claim(ctx, saga.ClaimRequest{}); return err }},
		{"claim fewer than none of a plan", func() error { _, err := j.Claim(ctx, saga.ClaimRequest{Limit: 1, PerPlan: -1}); return err }},
		{"list nothing", func() error { _, err := j.List(ctx, saga.ListRequest{}); return err }},
		{"list a name that is no text", func() error { _, err := j.List(ctx, saga.ListRequest{Limit: 1, Name: "\x00"}); return err }},
		{"sweep nothing", func() error { _, err := j.Sweep(ctx, 0); return err }},
		{"change to nothing", change(saga.Change{})},
		{"change by nobody that can be written", change(saga.Change{Status: saga.Running, By: saga.Audit{Actor: "\xff"}})},
		{"change with a distant deadline", change(saga.Change{Status: saga.Running, Deadline: math.MaxInt64})},
		{"no line of the audit log", func() error { _, err := j.AuditLog(ctx, saga.ID{}, 0); return err }},
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
	_, _, err := j.Change(t.Context(), saga.Change{ID: r.ID, Revision: 1, Status: saga.Running, By: someone})
	require.NoError(t, err)
	n, err := j.PruneAudit(t.Context(), 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 2500, n)
	log, err := j.AuditLog(t.Context(), saga.ID{}, 10)
	require.NoError(t, err)
	require.Len(t, log, 1)
}

// Leases that ended long ago go with the sweep, but for those of engines that drive sagas; an
// engine that drives a saga and never had one gets one, so that its saga is found.
func TestSweep_leases(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	start(t, j, newEngine()) // of an engine that never beat
	halted := start(t, j, beat(t, j, time.Hour))
	write(t, j, halted, saga.Write{Status: saga.Stuck})
	beat(t, j, time.Hour)
	exec(t, look, "update saga_engine set lease_until = clock_timestamp() - interval '25 hours'")
	live := beat(t, j, time.Hour)
	claim := func() int {
		claimed, err := j.Claim(t.Context(), saga.ClaimRequest{Engine: live, Plans: []saga.PlanHash{aPlan}, Limit: 10})
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

// Nothing of what a saga carries is in an error.
func TestErrors_tellNoSecrets(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, "alter table saga add constraint canary check (octet_length(input) < 30 or result is not null)")
	key := childkey.MustParse("canary-key")
	req := newRequest(saga.EngineID{1})
	req.ID, req.Key, req.Scope, req.Input = saga.IDOf("canary-scope", "checkout", key), key, "canary-scope", []byte(`{"card":"canary-input-canary-input"}`)
	_, _, err := j.Start(t.Context(), req)
	require.Error(t, err)
	r := start(t, j, beat(t, j, time.Hour))
	exec(t, look, "drop table saga_result")
	more := j.Append(t.Context(), ownerOf(r), saga.Write{Revision: 2, Entries: []saga.Entry{withResult("a.b", []byte(strings.Repeat("canary", 8000)))}})
	require.Error(t, more)
	require.NotContains(t, err.Error()+more.Error(), "canary-")
	require.NotContains(t, more.Error(), "canarycanary")
}
