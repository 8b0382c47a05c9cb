package pgstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A completion changes no indexed column, and finds room on its page.
func TestCompletionsAreHOT(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	const n = 1000
	for range n {
		require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	}
	s.Close()                           // a session reports what it did as it ends
	require.Eventually(t, func() bool { // and some time later if it is idle
		return queryRow[int](t, look, "select n_tup_upd from pg_stat_user_tables where relname = 'idempotency'") == n
	}, 2*time.Minute, 50*time.Millisecond)
	hot := queryRow[int](t, look, "select n_tup_hot_upd from pg_stat_user_tables where relname = 'idempotency'")
	require.GreaterOrEqual(t, hot, n*99/100, "HOT updates of %d", n)
}

// A note that somebody waits changes no indexed column, and neither does a completion after it. The same holds beside
// the indexes of readers.
func TestNotesAreHOT(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	require.NoError(t, pgstore.AddReaderIndexes(t.Context(), look, ""))
	const n = 500
	for range n {
		o := claim(t, s)
		exec(t, look, "update idempotency set waiters = true where key = $1", [16]byte(o.ID))
		require.NoError(t, s.Settle(t.Context(), o, completion))
	}
	s.Close()
	look.Reset() // its sessions report, too
	require.Eventually(t, func() bool {
		return queryRow[int](t, look, "select n_tup_upd from pg_stat_user_tables where relname = 'idempotency'") == 2*n
	}, 2*time.Minute, 50*time.Millisecond)
	hot := queryRow[int](t, look, "select n_tup_hot_upd from pg_stat_user_tables where relname = 'idempotency'")
	require.GreaterOrEqual(t, hot, 2*n*99/100, "HOT updates of %d", 2*n)
}

// There are only these three indexes. None of them may name a column that changes.
func TestIndexes(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	columns := queryRow[[]string](t, look, `select array_agg(a.attname::text order by a.attname)
		from pg_index i join pg_attribute a on a.attrelid = i.indexrelid
		where i.indrelid = 'idempotency'::regclass`)
	require.Equal(t, []string{"created_at", "expires_at", "key", "key"}, columns)
	predicates := queryRow[[]string](t, look, `select array_agg(pg_get_expr(indpred, indrelid)) from pg_index
		where indrelid = 'idempotency'::regclass and indpred is not null`)
	require.Equal(t, []string{"(effect = 3)"}, predicates)
}

// A duplicate reads. It writes no WAL and takes no transaction id, or retries
// would cost what first calls cost. The server is this test's own: both are
// counted for all of it.
func TestDuplicatesWriteNothing(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: map[string]string{
		"autovacuum": "off", "checkpoint_timeout": "1h", "bgwriter_delay": "10s",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s, look := openAt(t, cluster)
	done, running := newClaim(), newClaim()
	require.NoError(t, s.Settle(t.Context(), claimAs(t, s, done), completion))
	claimAs(t, s, running)
	duplicates := func(n int) {
		for i := range n {
			for _, req := range []store.ClaimRequest{done, running} {
				if i%2 == 1 { // as the guard does for a retry
					_, err := s.Read(t.Context(), req.ID)
					require.NoError(t, err)
					continue
				}
				req.Token = random()
				_, won, err := s.Claim(t.Context(), req)
				require.NoError(t, err)
				require.False(t, won)
			}
		}
	}
	duplicates(2) // hint bits and caches
	xids := "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
	before := queryRow[int64](t, look, xids)
	var wrote bool
	for range 10 { // a snapshot of running transactions, every 15 s, is the server's own
		lsn := queryRow[string](t, look, "select pg_current_wal_insert_lsn()::text")
		duplicates(100)
		wrote = queryRow[bool](t, look, "select pg_current_wal_insert_lsn() <> $1::pg_lsn", lsn)
		if !wrote {
			break
		}
	}
	require.False(t, wrote, "WAL was written in each of ten rounds")
	require.Equal(t, before, queryRow[int64](t, look, xids), "next transaction id")
}

// A counter counts the statements of a pool.
type counter struct{ statements, batches atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// countBatches is count for statements that travel together.
func (c *counter) countBatches(do func()) int64 {
	before := c.batches.Load()
	do()
	return c.batches.Load() - before
}

func (c *counter) count(do func()) int64 {
	before := c.statements.Load()
	do()
	return c.statements.Load() - before
}

func TestStatementsPerOperation(t *testing.T) {
	t.Parallel()
	c := new(counter)
	s, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
	claim(t, s) // opens the connection
	req := newClaim()
	var o store.Owner
	require.EqualValues(t, 1, c.count(func() { o = claimAs(t, s, req) }), "claim")
	require.EqualValues(t, 1, c.count(func() { require.NoError(t, s.Settle(t.Context(), o, completion)) }), "completion")
	duplicate := req
	duplicate.Token = random()
	require.EqualValues(t, 2, c.count(func() { _, _, _ = s.Claim(t.Context(), duplicate) }), "duplicate: the insert that did nothing, and a read")
	owners := make([]store.Owner, 100)
	for i := range owners {
		owners[i] = claim(t, s)
	}
	require.EqualValues(t, 1, c.countBatches(func() {
		got, err := s.Renew(t.Context(), owners, time.Minute)
		require.NoError(t, err)
		require.Len(t, got.Renewed, len(owners))
	}), "one round trip renews them all")
}

// The test measures the size of a key with a small answer on disk, on pages
// that are filled to nine tenths.
func TestSizePerKey(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	const n = 2000
	end := completion
	end.Answer.Envelope = make([]byte, 200)
	for range n {
		require.NoError(t, s.Settle(t.Context(), claim(t, s), end))
	}
	table := queryRow[int64](t, look, "select pg_relation_size('idempotency')")
	require.LessOrEqual(t, table/n, int64(560), "bytes of the table per key")
}
