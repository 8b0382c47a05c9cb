package pgjournal_test

import (
	"context"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

var (
	sqlComment = regexp.MustCompile(`(?m)--.*$`)
	// A session setting is lost behind a pooler, or found by another client. Notifications take
	// one lock for the whole server at commit. now() stands still from BEGIN, and the time of a
	// lease must not stand still.
	sessionWords = regexp.MustCompile(`(?i)\b(listen|notify|pg_notify|advisory|prepare|temp|temporary|set\s+session|now\s*\(\))`)
	localSetting = regexp.MustCompile(`set_config\([^)]*\)`)
)

func TestStatements_needNoSession(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("."), "query/*.sql")
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sql := sqlComment.ReplaceAllString(string(text), "")
		require.Empty(t, sessionWords.FindString(sql), file)
		for _, call := range localSetting.FindAllString(sql, -1) {
			require.True(t, strings.HasSuffix(call, ", true)"), "%s: %s outlives its transaction", file, call)
		}
		require.Truef(t, strings.HasPrefix(string(text), "-- "), "%s does not say what it does", file)
		if !strings.Contains(file, "heartbeat") && !strings.Contains(file, "leave") {
			require.NotContains(t, sql, "do update", "%s: a duplicate would write", file)
		}
	}
}

// A lone row sets its lock timeout itself. A flush has set it before, and the settings of a user's
// transaction stay as they are. The other forms send arrays.
func TestForms(t *testing.T) {
	t.Parallel()
	forms, err := pgjournal.Forms()
	require.NoError(t, err)
	for name, q := range forms {
		lone := name == "start" || name == "append" || name == "finish" || name == "flush"
		require.Equal(t, lone, strings.Contains(q.SQL(), "set_config("), "%s: %s", name, q.SQL())
		require.Equal(t, strings.HasSuffix(name, "_many"), strings.Contains(q.SQL(), "[]"), "%s: %s", name, q.SQL())
	}
}

// Each form is the statement for a lone row, but for what its first comment says. A change of one
// file that is forgotten in another fails here.
func TestForms_agree(t *testing.T) {
	t.Parallel()
	body := func(name string) string {
		text, err := os.ReadFile("query/" + name + ".sql")
		require.NoError(t, err)
		return regexp.MustCompile(`^(--.*\n)+`).ReplaceAllString(string(text), "")
	}
	without := func(text string) string { // the settings of a lone row
		return regexp.MustCompile(`(?m)^\s*where set_config\(.*\n`).ReplaceAllString(text, "")
	}
	many := func(text string) string {
		text = regexp.MustCompile(`@(\w+)::(\w+) as`).ReplaceAllString(without(text), "unnest(@$1::$2[]) as")
		return strings.Replace(text, "where i.id = o.id", "where\n--distributed i.id = any (@id) and\n  i.id = o.id", 1)
	}
	finish := func(text string) string {
		text = regexp.MustCompile(`@(deadline_at|wake_at|cause|stuck_on|fails|sleeps)::(\w+) as`).ReplaceAllString(text, "null::$2 as")
		return strings.NewReplacer("@status::smallint as", "3::smallint as", "@ends::interval as", "interval '0' as").Replace(text)
	}
	start, write := body("start"), body("append")
	for name, want := range map[string]string{
		"start_many": many(start), "start_tx": without(start),
		"append_many": many(write), "finish": finish(write), "finish_many": many(finish(write)),
	} {
		require.Equal(t, want, body(name), name)
	}
}

// A counter counts what a pool sends: a statement, or statements in one round trip.
type counter struct{ statements atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (c *counter) count(do func()) int64 {
	before := c.statements.Load()
	do()
	return c.statements.Load() - before
}

func (c *counter) under(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c }

func TestStatementsPerMethod(t *testing.T) {
	t.Parallel()
	c := new(counter)
	j, _ := open(t, pgjournal.Config{}, c.under)
	engine := beat(t, j, time.Minute)
	start(t, j, engine) // opens the connection
	count := func(want int64, what string, do func() error) {
		t.Helper()
		require.Equal(t, want, c.count(func() { require.NoError(t, do(), what) }), what)
	}
	var r journal.Record
	req := newRequest(engine)
	count(1, "start", func() (err error) { r, _, err = j.Start(t.Context(), req); return err })
	count(2, "start of a saga that is there: the insert that did nothing, and a read", func() error {
		_, _, err := j.Start(t.Context(), req)
		return err
	})
	w := journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}}
	count(1, "append", func() error { return j.Append(t.Context(), ownerOf(r), w) })
	count(2, "append that is there: the update that did nothing, and a read", func() error {
		return j.Append(t.Context(), ownerOf(r), w)
	})
	count(1, "read", func() error { _, err := j.Read(t.Context(), r.ID); return err })
	count(1, "read outlines", func() error { _, err := j.ReadOutlines(t.Context(), []journal.ID{r.ID, {1}}); return err })
	signal := journal.Signal{ID: r.ID, Name: "a.b", Value: []byte("1")}
	count(1, "send", func() error { return j.Send(t.Context(), signal, journal.Audit{}) })
	count(2, "send of what is there: the insert that did nothing, and a write of the row as it is", func() error {
		return j.Send(t.Context(), signal, journal.Audit{})
	})
	count(1, "end of a wait", func() error { _, err := j.EndWait(t.Context(), ownerOf(r), "a.c"); return err })
	count(3, "end of a wait where a signal is", func() error { _, err := j.EndWait(t.Context(), ownerOf(r), "a.b"); return err })
	count(1, "signals", func() error { _, err := j.Signals(t.Context(), []journal.ID{r.ID, {1}}); return err })
	count(1, "nothing to wake", func() error { _, err := j.WakeSignalled(t.Context()); return err })
	count(1, "heartbeat", func() error { return j.Heartbeat(t.Context(), engine, time.Minute) })
	for range 20 {
		start(t, j, journal.EngineID{})
	}
	claim := func(n int) func() error {
		return func() error {
			claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 100})
			require.Len(t, claimed, n)
			return err
		}
	}
	count(2, "claim of twenty: the look for them, and the claim", claim(20))
	count(1, "claim of none", claim(0))
	r, err := j.Read(t.Context(), r.ID)
	require.NoError(t, err)
	count(1, "change", func() error {
		_, _, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Running, By: someone})
		return err
	})
	count(1, "change of the plan", func() error {
		_, _, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision + 1, Plan: aPlan, Version: 2, By: someone})
		return err
	})
	count(1, "leave", func() error { return j.Leave(t.Context(), engine) })
}

// Writes of steps and of undos change no indexed column. They find room on their page, even if
// many sagas are written at once. All writes but the failure and the last write of each saga are
// HOT. The server is this test's own: a transaction in another database, too, keeps dead rows in
// their place.
func TestWritesAreHOT(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: map[string]string{"autovacuum": "off"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	_, look := openAt(t, cluster, pgjournal.Config{})
	j := openOn(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	const sagas, writes = 320, 6
	engine := beat(t, j, time.Minute)
	together(32, func(int) {
		for range sagas / 32 {
			r := start(t, j, engine)
			for _, w := range []journal.Write{
				{Entries: []journal.Entry{completed("inventory.reserve")}},
				{Entries: []journal.Entry{completed("payment.charge")}, DeadlineAt: time.Now()},
				{Entries: []journal.Entry{{Step: "shipping.book", Outcome: retry.Rejected}}, Status: journal.Compensating, Cause: &journal.Failure{Reason: journal.ReasonStep}},
				{Entries: []journal.Entry{{Step: "payment.charge", Undo: true, Outcome: retry.Completed}}},
				{Entries: []journal.Entry{{Step: "inventory.reserve", Undo: true, Outcome: retry.Completed}}},
				{Status: journal.Compensated, Keep: time.Hour},
			} {
				r = write(t, j, r, w)
			}
		}
	})
	j.Close()                           // a session reports what it did as it ends
	require.Eventually(t, func() bool { // and some time later if it is idle
		return queryRow[int](t, look, "select n_tup_upd from pg_stat_user_tables where relname = 'saga'") == sagas*writes
	}, 2*time.Minute, 50*time.Millisecond)
	hot := queryRow[int](t, look, "select n_tup_hot_upd from pg_stat_user_tables where relname = 'saga'")
	const steps = sagas * (writes - 2)
	require.GreaterOrEqual(t, hot, steps*90/100, "HOT updates of %d; an index on what one of them changes would leave three quarters", steps)
	t.Logf("%d of %d are HOT, %d bytes of the table a saga", hot, steps, queryRow[int64](t, look, "select pg_relation_size('saga')")/sagas)
	require.LessOrEqual(t, hot, steps, "the failure and the last one change an index")
}

// No other index than these seven; none may come to name a column that the writes of
// steps change.
func TestIndexes(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	columns := queryRow[[]string](t, look, `select array_agg(a.attname::text order by a.attname)
		from pg_index i join pg_attribute a on a.attrelid = i.indexrelid
		where i.indrelid = 'saga'::regclass`)
	require.Equal(t, []string{"created_at", "created_at", "created_at", "engine", "expires_at", "id", "plan", "plan", "plan", "plan", "slept_at", "status", "status", "wake_at"}, columns)
	predicates := queryRow[[]string](t, look, `select array_agg(pg_get_expr(indpred, indrelid) order by 1) from pg_index
		where indrelid = 'saga'::regclass and indpred is not null`)
	const active, nobody = "(status = ANY (ARRAY[1, 2]))", "'00000000-0000-0000-0000-000000000000'::uuid"
	require.ElementsMatch(t, []string{
		"(expires_at IS NULL)", "(expires_at IS NOT NULL)",
		"(" + active + " AND (engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))",
		"(" + active + " AND (engine = " + nobody + "))", "(" + active + " AND (engine = " + nobody + ") AND (slept_at IS NOT NULL))", "(" + active + " AND (engine <> " + nobody + "))",
	}, predicates)
}

// Claims and lists of running sagas read only running sagas, however many sagas are finished.
func TestPlans_ofFinishedSagas(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, `insert into saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status, clean, created_at, expires_at)
		select gen_random_uuid(), gen_random_uuid(), $1, '', 'checkout', 1, '', 'k', '', 1, 1, 3, false, clock_timestamp(), 'infinity'
		from generate_series(1, 20000)`, aPlan[:])
	exec(t, look, "vacuum analyze saga")
	engine := beat(t, j, time.Minute)
	for range 10 {
		start(t, j, journal.EngineID{})
	}
	scanned := func() int64 {
		exec(t, look, "select pg_stat_force_next_flush()")
		return queryRow[int64](t, look, "select seq_tup_read from pg_stat_user_tables where relname = 'saga'")
	}
	before := scanned()
	claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 5})
	require.NoError(t, err)
	require.Len(t, claimed, 5)
	for _, req := range []journal.ListRequest{{Limit: 100, Engine: engine}, {Limit: 100, Deferred: true}} {
		_, err := j.List(t.Context(), req)
		require.NoError(t, err)
	}
	_, err = j.Sweep(t.Context(), 100)
	require.NoError(t, err)
	j.Close() // a session reports what it did as it ends
	until(t, "its sessions have ended", func() bool {
		const sessions = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
		return queryRow[int](t, look, sessions) == int(look.Stat().TotalConns())
	})
	require.Equal(t, before, scanned(), "rows of the table that were read one after the other")
}
