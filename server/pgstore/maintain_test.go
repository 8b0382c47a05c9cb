package pgstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// partitionNames are those of the answers, in order.
func partitionNames(tb testing.TB, look *pgxpool.Pool) []string {
	tb.Helper()
	return queryRow[[]string](tb, look, "select coalesce(array_agg(inhrelid::regclass::text order by inhrelid::regclass::text), '{}') from pg_inherits"+answers)
}

// holding leaves a transaction open in which these statements were executed, until end
// is called.
func holding(tb testing.TB, look *pgxpool.Pool, options pgx.TxOptions, statements ...string) (end func()) {
	tb.Helper()
	tx, err := look.BeginTx(tb.Context(), options)
	require.NoError(tb, err)
	end = func() { _ = tx.Rollback(context.Background()) }
	tb.Cleanup(end)
	for _, statement := range statements {
		_, err := tx.Exec(tb.Context(), statement)
		require.NoError(tb, err)
	}
	return end
}

// If several processes maintain at the same time, one of them does the work. The others look, and go on.
func TestMaintain_one(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	end := holding(t, look, pgx.TxOptions{}, `select pg_advisory_xact_lock(hashtext('fanonce partitions ' || 'idempotency_answer'::regclass::oid))`)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Empty(t, partitionNames(t, look))
	end()
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.GreaterOrEqual(t, len(partitionNames(t, look)), 4, "today's, and those of the next three days")

	other := openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	holding(t, look, pgx.TxOptions{}, `select pg_advisory_xact_lock(hashtext('fanonce partitions ' || 'idempotency_answer'::regclass::oid))`)
	require.NoError(t, other.MaintainPartitions(t.Context(), time.Hour))
	require.NoError(t, other.Settle(t.Context(), claim(t, other), completion))
	apart, _ := inPartitions(t, look)
	require.Equal(t, 1, apart, "what one made the other uses")
}

// A pool of one connection is enough.
func TestMaintain_poolOfOne(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: time.Hour}, size(1))
	require.NoError(t, s.MaintainPartitions(t.Context(), 24*time.Hour))
	require.Greater(t, len(partitionNames(t, look)), 24)
}

// One process names the schema, and another leaves it to the search_path. Their maintenance still excludes each
// other.
func TestMaintain_oneBySchemaOrPath(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, Schema: "public"})
	holding(t, look, pgx.TxOptions{}, `select pg_advisory_xact_lock(hashtext('fanonce partitions ' || 'idempotency_answer'::regclass::oid))`)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Empty(t, partitionNames(t, look))
}

// A lock that another session holds for long makes maintenance fail soon, and makes no caller wait.
func TestMaintain_locked(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	end := holding(t, look, pgx.TxOptions{}, "lock table idempotency_answer in share update exclusive mode") // as analyze does
	err := s.MaintainPartitions(t.Context(), time.Hour)
	require.True(t, isLockTimeout(err), err)
	require.Contains(t, err.Error(), "pgstore: partitions: make partitions idempotency_answer_p")
	require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	end()
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{1, 1}, []int{apart, inline})
}

// addPartition makes the partition for the interval that begins the given number of intervals from now.
func addPartition(tb testing.TB, look *pgxpool.Pool, format string, interval time.Duration, n int) (name string) {
	tb.Helper()
	from := time.Now().UTC().Truncate(interval).Add(time.Duration(n) * interval)
	name = "idempotency_answer_p" + from.Format(format)
	exec(tb, look, "create table "+name+" (like idempotency_answer including all)")
	exec(tb, look, fmt.Sprintf("alter table idempotency_answer attach partition %s for values from ('%s') to ('%s')",
		name, from.Format(time.RFC3339), from.Add(interval).Format(time.RFC3339)))
	return name
}

// A backup, or another transaction that saw a partition, prevents its drop until that transaction ends. No request
// notices. Then the partition goes.
func TestMaintain_readerStays(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	old := addPartition(t, look, "20060102", 24*time.Hour, -2)
	end := holding(t, look, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, "select count(*) from idempotency_answer")
	for range 2 {
		err := s.MaintainPartitions(t.Context(), time.Hour)
		require.True(t, isLockTimeout(err), err)
		require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	}
	older := addPartition(t, look, "20060102", 24*time.Hour, -3) // cannot be detached before the pending detach ends
	apart, _ := inPartitions(t, look)
	require.Equal(t, 2, apart)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from pg_inherits"+answers+" and inhdetachpending"))
	end()
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.NotContains(t, partitionNames(t, look), old)
	require.NotContains(t, partitionNames(t, look), older)
	require.Zero(t, queryRow[int](t, look, "select count(*) from pg_class where relname = any($1)", []string{old, older}))
}

// countTables returns how many of these tables there are, partitions or not.
func countTables(tb testing.TB, look *pgxpool.Pool, names ...string) int {
	tb.Helper()
	return queryRow[int](tb, look, "select count(*) from pg_class where relname = any ($1)", names)
}

// After PartitionInterval was changed, new partitions fill the gaps between those of the interval before. Those are kept
// and dropped like the new ones, whatever their names are.
func TestMaintain_changedInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, format     string
		before, interval time.Duration
	}{
		{"days", "20060102", 24 * time.Hour, 24 * time.Hour},
		{"hours, after days", "20060102", 24 * time.Hour, time.Hour},
		{"days, after hours", "20060102_150405", time.Hour, 24 * time.Hour},
		{"days of other names", "2006_01_02", 24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: tt.interval})
			hour := time.Now().Truncate(time.Hour)
			past := addPartition(t, look, tt.format, tt.before, -2)
			now, ahead := addPartition(t, look, tt.format, tt.before, 0), addPartition(t, look, tt.format, tt.before, 3)
			kept := addPartition(t, look, tt.format, tt.before, -25)
			exec(t, look, "alter table idempotency_answer detach partition "+kept)

			require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
			there := partitionNames(t, look)
			require.NotContains(t, there, past)
			require.Contains(t, there, ahead)
			require.Zero(t, countTables(t, look, past))
			require.Equal(t, 1, countTables(t, look, kept), "who detached it says what becomes of it")
			require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
			apart, _ := inPartitions(t, look)
			require.Equal(t, 1, apart)
			require.Zero(t, queryRow[int](t, look, "select count(*) from unnest($1::text[]) n where n <> all ($2) and n !~ '^idempotency_answer_p[0-9]{8}(_[0-9]{6})?$'",
				there, []string{now, ahead}))
			require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
			if time.Now().Truncate(time.Hour).Equal(hour) {
				require.Contains(t, there, now)
				require.Equal(t, there, partitionNames(t, look), "again there is nothing to do")
			}
		})
	}
}

// noted records that maintenance detached a table, as maintenance does before it detaches a table.
func noted(tb testing.TB, look *pgxpool.Pool, name string) {
	tb.Helper()
	exec(tb, look, `insert into idempotency_detached (table_oid, schema_name, table_name)
		select c.oid, relnamespace::regnamespace::text, relname from pg_class c where c.oid = $1::regclass`, name)
}

// Maintenance drops every partition that is past, whatever its name and its maker. It also drops a partition whose
// detaching process died.
func TestMaintain_dropsWhatItDetached(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	const byHand, died = "answers_of_new_year", "answers_of_christmas"
	exec(t, look, "create table "+byHand+" partition of idempotency_answer for values from ('2026-01-01') to ('2026-01-02')")
	exec(t, look, "create table "+died+" (like idempotency_answer including all)")
	noted(t, look, died)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Zero(t, countTables(t, look, byHand, died))
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency_detached"))
}

// Others keep the tables that they detached, as evidence or as an archive. They also keep tables
// that they restored from a backup, or only began to detach.
func TestMaintain_leavesWhatOthersDetached(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	const evidence, restored, begun = "idempotency_answer_p20200101", "idempotency_answer_p20200102", "idempotency_answer_p20200103"
	partition := func(name, from, to string) {
		exec(t, look, "create table "+name+" partition of idempotency_answer for values from ('"+from+"') to ('"+to+"')")
	}
	partition(evidence, "2020-01-01", "2020-01-02")
	exec(t, look, "alter table idempotency_answer detach partition "+evidence)
	exec(t, look, "create table "+restored+" (like idempotency_answer including all)")
	partition(begun, "2020-01-03", "2020-01-04")
	end := holding(t, look, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, "select count(*) from idempotency_answer")
	conn, err := look.Acquire(t.Context())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "set lock_timeout = '100ms'")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "alter table idempotency_answer detach partition "+begun+" concurrently")
	require.True(t, isLockTimeout(err), err)
	conn.Release()
	end()
	for range 2 {
		require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
		require.Equal(t, 3, countTables(t, look, evidence, restored, begun))
		require.NotContains(t, partitionNames(t, look), begun, "no other could leave before it")
	}
}

// A partition that was detached and could not be dropped is dropped as soon as that is possible, whatever its name
// is. It stays if somebody has renamed or attached it.
func TestMaintain_dropsLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then []string
		left int
	}{
		{"nothing is in the way any more", []string{"drop view report"}, 0},
		{"dropped by hand", []string{"drop table new_year cascade"}, 0},
		{"renamed", []string{"drop view report", "alter table new_year rename to archive"}, 1},
		{"attached", []string{"drop view report", "alter table idempotency_answer attach partition new_year for values from ('9026-01-01') to ('9026-01-02')"}, 1},
		{"another table by now", []string{"drop table new_year cascade", "create table new_year (n int)"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, look := openPartitioned(t, 24*time.Hour, time.Hour)
			exec(t, look, "create table new_year partition of idempotency_answer for values from ('2026-01-01') to ('2026-01-02')")
			exec(t, look, "create view report as select * from new_year")
			for range 2 {
				require.ErrorContains(t, s.MaintainPartitions(t.Context(), time.Hour), "pgstore: partitions: drop partition new_year: ")
				require.Equal(t, 1, countTables(t, look, "new_year"))
				require.NotContains(t, partitionNames(t, look), "new_year")
			}
			for _, statement := range tt.then {
				exec(t, look, statement)
			}
			for range 2 { // by another process
				s := openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned})
				require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
				require.Equal(t, tt.left, countTables(t, look, "new_year", "archive"))
				require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency_detached"))
			}
		})
	}
}

// A partition can be in another schema than the answers.
func TestMaintain_otherSchema(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	exec(t, look, "create schema other")
	exec(t, look, "create table other.idempotency_answer_p20260101 partition of idempotency_answer for values from ('2026-01-01') to ('2026-01-02')")
	exec(t, look, "create table other.new_year partition of idempotency_answer for values from ('2026-01-02') to ('2026-01-03')")
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Zero(t, countTables(t, look, "idempotency_answer_p20260101", "new_year"))
}

// Maintenance drops no table that it did not detach, whatever its name and its columns are.
func TestMaintain_leavesTables(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	names := []string{
		"idempotency_answer_p20260131", "idempotency_answer_p20260131_130000", "idempotency_answer_p2026_01_31",
		"idempotency_answer_p2026", "idempotency_answer_default", "my_idempotency_answer_p20260131",
	}
	for _, name := range names {
		exec(t, look, "create table "+name+" (like idempotency_answer including all)")
	}
	addPartition(t, look, "20060102", 24*time.Hour, -2) // so that there is something to do
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Equal(t, len(names), countTables(t, look, names...))
}

// A table that it detached stays too, while it holds an answer within its time.
func TestMaintain_leavesAnswers(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	const name = "idempotency_answer_p20250101"
	exec(t, look, "create table "+name+" (like idempotency_answer including all)")
	exec(t, look, "insert into "+name+" values (now() - interval '1 day', gen_random_uuid(), ''), (now() + interval '1 hour', gen_random_uuid(), '')")
	noted(t, look, name)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Equal(t, 1, countTables(t, look, name))
	exec(t, look, "delete from "+name+" where kept_until > now()")
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Zero(t, countTables(t, look, name))
}

// Maintenance does not wait long for a table that is in use, or that is locked against its look.
func TestMaintain_detachedInUse(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	const name = "idempotency_answer_p20260101"
	exec(t, look, "create table "+name+" (like idempotency_answer including all)")
	noted(t, look, name)
	end := holding(t, look, pgx.TxOptions{}, "insert into "+name+" values (now() + interval '1 day', gen_random_uuid(), '')")
	err := s.MaintainPartitions(t.Context(), time.Hour)
	require.True(t, isLockTimeout(err), err)
	end()

	exec(t, look, "insert into "+name+" values (now() + interval '1 day', gen_random_uuid(), '')")
	end = holding(t, look, pgx.TxOptions{}, "select from "+name)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour), "its reader is not in the way, as it stays")
	end()
	exec(t, look, "delete from "+name)
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Zero(t, countTables(t, look, name))
}

// An answer that is put in while the drop waits for its lock keeps the table.
func TestMaintain_answerBeforeTheDrop(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	const name = "idempotency_answer_p20260101"
	exec(t, look, "create table "+name+" (like idempotency_answer including all)")
	noted(t, look, name)
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "insert into "+name+" values (now() + interval '1 day', gen_random_uuid(), '')")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.MaintainPartitions(t.Context(), time.Hour) }()
	until(t, "the drop waits", func() bool {
		return queryRow[bool](t, look, "select exists (select from pg_locks where relation = $1::regclass and not granted)", name)
	})
	require.NoError(t, tx.Commit(t.Context()))
	if err := <-done; err != nil {
		require.True(t, isLockTimeout(err), err)
	}
	require.Equal(t, 1, countTables(t, look, name))
}

// Beside a default partition none can be detached concurrently.
func TestMaintain_defaultPartition(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	exec(t, look, "create table idempotency_answer_default partition of idempotency_answer default")
	err := s.MaintainPartitions(t.Context(), time.Hour)
	require.ErrorIs(t, err, pgstore.ErrConfig)
	require.ErrorContains(t, err, "idempotency_answer_default is a default partition")
	require.ErrorIs(t, s.Check(t.Context()), pgstore.ErrConfig)
}

// A foreign table has the name of a missing partition: the other partitions are made.
func TestMaintain_inTheWay(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	name := "idempotency_answer_p" + time.Now().UTC().AddDate(0, 0, 3).Format("20060102")
	exec(t, look, "create view "+name+" as select 1")
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	require.Greater(t, len(partitionNames(t, look)), 2)
	require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	apart, _ := inPartitions(t, look)
	require.Equal(t, 1, apart)
}

// Where services do not own the tables, the owner maintains them and the
// services look. The services report late maintenance, and only late
// maintenance.
func TestMaintain_asRuntime(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	r := roles(t, look)
	cfg := pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: time.Hour}
	owner, service := openOn(t, look, cfg, as(r.Owner)), openOn(t, look, cfg, as(r.Runtime))
	require.ErrorContains(t, service.MaintainPartitions(t.Context(), time.Hour), "does not own the tables")
	require.NoError(t, owner.MaintainPartitions(t.Context(), time.Hour))
	require.NoError(t, service.MaintainPartitions(t.Context(), time.Hour))
	require.NoError(t, service.MaintainPartitions(t.Context(), 3*time.Hour), "what is only made ahead is nothing to tell of")
	require.NoError(t, service.Settle(t.Context(), claim(t, service), completion))
	apart, _ := inPartitions(t, look)
	require.Equal(t, 1, apart)
}

// A pooler in transaction mode would lose the timeout, or leave it to another client.
func TestMaintain_throughPgBouncer(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(t, look.Config().ConnString()))
	require.NoError(t, err)
	s, err := pgstore.Open(t.Context(), cfg, pgstore.Config{Answers: pgstore.AnswersPartitioned, AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.ErrorContains(t, s.MaintainPartitions(t.Context(), time.Hour), "lock_timeout")
	require.Empty(t, partitionNames(t, look))
}

// The guard's sweeper maintains them.
func TestMaintain_byTheSweeper(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.RunSweeper(ctx) }()
	until(t, "there are partitions", func() bool { return len(partitionNames(t, look)) >= 7 })
	cancel()
	<-done
}
