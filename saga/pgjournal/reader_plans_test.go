package pgjournal_test

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

var readerSagas = flag.Int("pgjournal.reader", 10_000, "how many sagas there are in BenchmarkReader")

var recurringSagas = flag.Int("pgjournal.sagas", 20_000, "how many sagas there are in TestRecurring; the long form has 100,000")

// A listener remembers the statements that a pool sends, one by one or together.
type listener struct{ sent []pgx.TraceBatchQueryData }

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.sent = append(l.sent, pgx.TraceBatchQueryData{SQL: q.SQL, Args: q.Args})
	return ctx
}

func (l *listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *listener) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *listener) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	l.sent = append(l.sent, q)
}

func (l *listener) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// crowd stores sagas of all statuses over ten hours, and an audit log of a fifth as many lines. It returns a saga that
// the log has.
func crowd(tb testing.TB, look *pgxpool.Pool, n int) (id journal.ID) {
	tb.Helper()
	exec(tb, look, `insert into saga (created_at, version, id, plan, input_hash, name, scope, key, input, fence, engine, status, clean, revision, wake_at, expires_at, finished_at)
		select clock_timestamp() - i * interval '36000 seconds' / $2, 1, gen_random_uuid(), $1, sha256('x'), 'checkout', '', 'k-' || i,
			'{"sku":"a-1","cents":100}', 0, '00000000-0000-0000-0000-000000000000', s.status, s.status <= 2, 1,
			case when s.status <= 2 then clock_timestamp() + interval '1 hour' end,
			case when s.status in (3, 4, 6) then clock_timestamp() + interval '1 hour' end, case when s.status > 2 then clock_timestamp() end
		from generate_series(1, $2::int) i, lateral (select (array[3,3,3,3,1,2,4,5,6,3])[i % 10 + 1] as status) s`, aPlan[:], n)
	exec(tb, look, `insert into saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
		select id, 'retry', '', case when row_number() over () % 1000 = 0 then 'ann' else 'bob' end, 'a reason', 5, 1, 1 from saga limit $1`, n/5)
	exec(tb, look, "vacuum analyze")
	return queryRow[[16]byte](tb, look, "select saga from saga_audit order by id limit 1")
}

// A question is one method of a reader, with arguments, and the indexes that it may use.
type question struct {
	name, indexes string
	ask           func(ctx context.Context, r journal.Reader) error
}

// questions are all that a page asks, in the forms that have statements of their own.
func questions(id journal.ID) []question {
	browse := func(req journal.BrowseRequest) func(context.Context, journal.Reader) error {
		return func(ctx context.Context, r journal.Reader) error {
			req.Limit = 100
			_, err := r.Browse(ctx, req)
			return err
		}
	}
	audit := func(req journal.AuditRequest) func(context.Context, journal.Reader) error {
		return func(ctx context.Context, r journal.Reader) error {
			req.Limit = 100
			_, err := r.AuditPage(ctx, req)
			return err
		}
	}
	at := journal.Cursor{CreatedAt: time.Now().Add(-time.Hour), ID: id}
	return []question{
		{"show", "saga_pkey", func(ctx context.Context, r journal.Reader) error { _, err := r.Show(ctx, id); return err }},
		{"browse unfinished", "saga_unfinished", browse(journal.BrowseRequest{Statuses: []journal.Status{journal.Running, journal.Compensating, journal.Stuck}})},
		{"browse unfinished behind a page", "saga_unfinished", browse(journal.BrowseRequest{Statuses: []journal.Status{journal.Running, journal.Stuck}, Before: at})},
		{"browse the oldest", "saga_unfinished", browse(journal.BrowseRequest{Statuses: []journal.Status{journal.Running, journal.Stuck}, OldestFirst: true})},
		{"browse the oldest behind a page", "saga_unfinished", browse(journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, OldestFirst: true, Before: at})},
		{"browse a step", "saga_unfinished", browse(journal.BrowseRequest{StuckOn: "a.b"})},
		{"browse all", "saga_created_at", browse(journal.BrowseRequest{})},
		{"browse finished behind a page", "saga_created_at", browse(journal.BrowseRequest{Statuses: []journal.Status{journal.Completed}, From: at.CreatedAt.Add(-time.Hour), Before: at})},
		{"stats", "saga_due saga_deferred saga_owned saga_unfinished saga_finished", func(ctx context.Context, r journal.Reader) error { _, err := r.Stats(ctx); return err }},
		{"estimate", "saga_finished", func(ctx context.Context, r journal.Reader) error { _, err := r.Estimate(ctx); return err }},
		{"audit", "saga_audit_id", audit(journal.AuditRequest{})},
		{"audit of an actor", "saga_audit_id", audit(journal.AuditRequest{Actor: "bob"})},
		{"audit of a saga", "saga_audit_pkey", audit(journal.AuditRequest{ID: id, Before: 1 << 40})},
	}
}

var (
	fullRead = regexp.MustCompile(`(Seq|Bitmap \w+) Scan on (public\.)?saga(_audit)?\b`)
	indexed  = regexp.MustCompile(`using (\w+) on (?:public\.)?saga(?:_audit)?\b`)
)

// fullReads returns the questions whose statements read a table as a whole, or by an index that is not theirs. The plans are those of the statements as
// they were sent, behind the settings that were sent with them.
func fullReads(t *testing.T, look *pgxpool.Pool, all []question) (bad []string) {
	t.Helper()
	for _, q := range all {
		l := new(listener)
		r := newReader(t, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = l })
		require.NoError(t, q.ask(t.Context(), r), q.name)
		explained := 0
		for i, st := range l.sent {
			if i == 0 || !strings.Contains(l.sent[i-1].SQL, "enable_seqscan") {
				continue
			}
			plan := explain(t, look, l.sent[i-1], st)
			used := indexed.FindAllStringSubmatch(plan, -1)
			if len(used) == 0 && !fullRead.MatchString(plan) { // of the catalog alone
				continue
			}
			explained++
			wrong := slices.ContainsFunc(used, func(index []string) bool { return !slices.Contains(strings.Fields(q.indexes), index[1]) })
			if wrong || fullRead.MatchString(plan) || compiled.MatchString(plan) {
				bad = append(bad, q.name)
				t.Logf("%s: %v", q.name, used)
			}
		}
		require.Positive(t, explained, q.name)
	}
	return bad
}

// Every statement reads by its index, and without the index the test would see it.
func TestReader_plans(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	all := questions(crowd(t, look, 20_000))
	require.Empty(t, fullReads(t, look, all))
	exec(t, look, "drop index saga_unfinished; drop index saga_finished; drop index saga_audit_id; "+
		"alter table saga_audit drop constraint saga_audit_pkey; alter table saga drop constraint saga_pkey")
	var want []string
	for _, q := range all {
		if q.indexes != "saga_created_at" {
			want = append(want, q.name)
		}
	}
	require.Equal(t, want, fullReads(t, look, all))
}

// BenchmarkReader measures what a page asks. The flag pgjournal.reader is the number of sagas.
func BenchmarkReader(b *testing.B) {
	_, look := open(b, pgjournal.Config{})
	require.NoError(b, pgjournal.AddReaderIndexes(b.Context(), look, ""))
	id := crowd(b, look, *readerSagas)
	r := newReader(b, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute})
	for _, q := range questions(id) {
		b.Run(fmt.Sprintf("%s/sagas=%d", strings.ReplaceAll(q.name, " ", "_"), *readerSagas), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, q.ask(b.Context(), r))
			}
		})
	}
}

// mostPages is how many pages a statement that is sent again and again may read: 50 ms, if each is in memory and takes 2.5 µs.
const mostPages = 20_000

var (
	executionTime = regexp.MustCompile(`Execution Time: ([\d.]+) ms`)
	buffers       = regexp.MustCompile(`Buffers: .*`) // of a part of the statement, with the parts below it
	readPages     = regexp.MustCompile(`(?:hit|read)=(\d+)`)
)

// What engines, scrapes and pages ask again and again takes little time in a large table, and reads no table as a whole.
// Sagas of all statuses are there, and some are owned by living engines, are past their time or wait for an engine.
func TestRecurring(t *testing.T) {
	t.Parallel()
	l := new(listener)
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 1, l })
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	id := crowd(t, look, *recurringSagas)
	engine := beat(t, j, time.Hour)
	for range 3 {
		exec(t, look, `update saga set engine = $1, fence = 1, wake_at = null, clean = false
			where id = any (array(select id from saga where status = 1 and engine = '00000000-0000-0000-0000-000000000000' limit $2))`, beat(t, j, time.Hour), *recurringSagas/50)
	}
	exec(t, look, "update saga set expires_at = clock_timestamp() - interval '1 hour' where id = any (array(select id from saga where expires_at is not null limit $1))", *recurringSagas/10)
	exec(t, look, "update saga set wake_at = clock_timestamp() where id = any (array(select id from saga where wake_at is not null limit $1))", *recurringSagas/20)
	exec(t, look, "vacuum analyze")

	for _, q := range questions(id) {
		requireQuick(t, look, q.name, mostPages, func() []pgx.TraceBatchQueryData {
			l := new(listener)
			r := newReader(t, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = l })
			require.NoError(t, q.ask(t.Context(), r), q.name)
			return l.sent
		})
	}
	for name, send := range map[string]func() error{
		"poll": func() error {
			_, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 100, Backoff: time.Minute})
			return err
		},
		"heartbeat": func() error { return j.Heartbeat(t.Context(), engine, time.Hour) },
		"list": func() error {
			_, err := j.List(t.Context(), journal.ListRequest{Engine: engine, Limit: 100})
			return err
		},
		"stats": func() error { _, err := j.Stats(t.Context()); return err },
		"sweep": func() (err error) {
			for n := 1000; n == 1000 && err == nil; {
				n, err = j.Sweep(t.Context(), 1000)
			}
			return err
		},
	} {
		requireQuick(t, look, name, mostPages, func() []pgx.TraceBatchQueryData {
			l.sent = nil
			require.NoError(t, send(), name)
			return l.sent
		})
	}
}

// requireQuick explains the statements that send sends on the tables. What they read, most pages each, bounds their time on
// a machine that is not busy; the log has the time.
func requireQuick(t *testing.T, look *pgxpool.Pool, name string, most int, send func() []pgx.TraceBatchQueryData) {
	t.Helper()
	settings, explained := pgx.TraceBatchQueryData{SQL: "select 1"}, 0
	for _, st := range send() {
		switch {
		case strings.Contains(st.SQL, "enable_seqscan"):
			settings = st
			continue
		case !strings.Contains(st.SQL, "saga"):
			continue
		}
		explained++
		plan := explain(t, look, settings, st)
		pages := 0
		execution, _, _ := strings.Cut(plan, "\nPlanning")
		for _, part := range buffers.FindAllString(execution, -1) { // the first part lacks those that write and return nothing
			sum := 0
			for _, n := range readPages.FindAllStringSubmatch(part, -1) {
				read, err := strconv.Atoi(n[1])
				require.NoError(t, err)
				sum += read
			}
			pages = max(pages, sum)
		}
		t.Logf("%-32s %5d pages, %s ms", name, pages, executionTime.FindStringSubmatch(plan)[1])
		require.NotRegexp(t, `Seq Scan on (public\.)?saga(_audit)?\b`, plan, name)
		require.Positive(t, pages, plan)
		require.LessOrEqual(t, pages, most, "%s\n%s", name, plan)
	}
	require.Positive(t, explained, name)
}
