package pgstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// migrateForReaders makes the tables with the indexes of readers.
func migrateForReaders(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	return pgstore.AddReaderIndexes(ctx, pool, schema)
}

// openReader returns a reader on a pool of its own to the database of look.
func openReader(tb testing.TB, look *pgxpool.Pool, cfg pgstore.ReaderConfig, changes ...func(*pgxpool.Config)) *pgstore.Reader {
	tb.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	pgstore.Prepare(poolCfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), poolCfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	r, err := pgstore.NewReader(pool, cfg)
	require.NoError(tb, err)
	return r
}

// sameTime gives records one CreatedAt, to the microsecond.
func sameTime(tb testing.TB, look *pgxpool.Pool) func(claim func() []store.ID) {
	return func(claim func() []store.ID) {
		ids := claim()
		keys := make([][16]byte, len(ids))
		for i, id := range ids {
			keys[i] = id
		}
		exec(tb, look, "update idempotency set created_at = (select min(created_at) from idempotency) where key = any ($1)", keys)
	}
}

// The rights of the observer are enough for everything that a reader does.
func TestReader_asObserver(t *testing.T) {
	t.Parallel()
	databases := &stock{
		Stock:   pgkittest.NewStock(t, migrateForReaders, tables...),
		runtime: func(look *pgxpool.Pool) string { return roles(t, look).Observer },
	}
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		look, asObserver := databases.lend(tb)
		patient := pgstore.ReaderConfig{StatementTimeout: time.Minute} // the machine may be busy
		return servertest.ReaderSetup{
			Store: openOn(tb, look, pgstore.Config{}), Reader: openReader(tb, look, patient, asObserver), SameTime: sameTime(tb, look),
		}
	})
}

func TestReader_throughPgBouncer(t *testing.T) {
	t.Parallel()
	databases := &stock{Stock: pgkittest.NewStock(t, migrateForReaders, tables...)}
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		look, _ := databases.lend(tb)
		cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
		require.NoError(tb, err)
		pgstore.Prepare(cfg)
		pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
		require.NoError(tb, err)
		tb.Cleanup(pool.Close)
		r, err := pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: time.Minute})
		require.NoError(tb, err)
		return servertest.ReaderSetup{Store: openOn(tb, look, pgstore.Config{}), Reader: r, SameTime: sameTime(tb, look)}
	})
}

func TestReader_distributed(t *testing.T) {
	t.Parallel()
	databases := &stock{Stock: pgkittest.NewCitusStock(t, func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		if err := setUpDistributed(ctx, pool, schema); err != nil {
			return err
		}
		return pgstore.AddReaderIndexes(ctx, pool, schema)
	}, tables...)}
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		look, _ := databases.lend(tb)
		s := openOn(tb, look, pgstore.Config{})
		return servertest.ReaderSetup{Store: s, Reader: openReader(tb, look, pgstore.ReaderConfig{StatementTimeout: time.Minute}), SameTime: sameTime(tb, look)}
	})
}

func TestNewReader_badConfig(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	_, err := pgstore.NewReader(nil, pgstore.ReaderConfig{})
	require.ErrorIs(t, err, pgstore.ErrNotPrepared)
	_, err = pgstore.NewReader(look, pgstore.ReaderConfig{})
	require.ErrorIs(t, err, pgstore.ErrNotPrepared)
	for _, cfg := range []pgstore.ReaderConfig{
		{StatementTimeout: -time.Second}, {StatementTimeout: time.Microsecond}, {StatementTimeout: 2 * time.Hour}, {Schema: "a, b"},
	} {
		_, err := pgstore.NewReader(look, cfg)
		require.Error(t, err)
		poolCfg := look.Config()
		pgstore.Prepare(poolCfg)
		pool, err := pgxpool.NewWithConfig(t.Context(), poolCfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		_, err = pgstore.NewReader(pool, cfg)
		require.ErrorIs(t, err, pgstore.ErrConfig, "%+v", cfg)
	}
}

// A store has a reader of its own, which finds the schema.
func TestStore_reader(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Migrate(t.Context(), look, "elsewhere"))
	s := openOn(t, look, pgstore.Config{Schema: "elsewhere"})
	r := s.Reader()
	o := claim(t, s)
	shown, err := r.Show(t.Context(), o.ID)
	require.NoError(t, err)
	require.Equal(t, o.ID, shown.ID)
	_, err = r.Browse(t.Context(), store.BrowseRequest{Limit: 1})
	require.ErrorIs(t, err, store.ErrNoIndex)
	require.NoError(t, pgstore.AddReaderIndexes(t.Context(), look, "elsewhere"))
	found, err := r.Browse(t.Context(), store.BrowseRequest{Limit: 1})
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// Without the indexes a reader says so, and reads nothing.
func TestReader_withoutIndexes(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	claim(t, s)
	r := openReader(t, look, pgstore.ReaderConfig{})
	_, err := r.Browse(t.Context(), store.BrowseRequest{Limit: 1})
	require.ErrorIs(t, err, store.ErrNoIndex)
	require.ErrorContains(t, err, "fanonce migrate up --component reader")
	_, err = r.List(t.Context(), store.ListRequest{Parent: random(), Limit: 1})
	require.ErrorIs(t, err, store.ErrNoIndex)
	require.ErrorContains(t, err, "fanonce migrate up --component reader")
	e, err := r.Estimate(t.Context())
	require.NoError(t, err)
	require.Nil(t, e.ByState)
	require.Zero(t, e.Young)
	require.EqualValues(t, -1, e.Records, "nobody has analyzed the table")
	require.Positive(t, e.Bytes)
	exec(t, look, "analyze idempotency")
	e, err = r.Estimate(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Records)
}

// A server that has no answer in time ends the statement itself, also behind a pooler. The connection is good for the
// next statement, which has a timeout of its own.
func TestReader_tooSlow(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select gen_random_uuid(), gen_random_uuid(), 1, 3, 2, 1, clock_timestamp(), now(), now() from generate_series(1, 20000)`)
	for _, way := range []struct {
		name string
		url  func(testing.TB) string
	}{
		{"direct", func(testing.TB) string { return look.Config().ConnString() }},
		{"pooler", func(tb testing.TB) string { return pgtest.PooledURL(tb, look.Config().ConnString()) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			cfg, err := pgxpool.ParseConfig(way.url(t))
			require.NoError(t, err)
			cfg.MaxConns = 1
			pgstore.Prepare(cfg)
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			hasty, err := pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: time.Millisecond})
			require.NoError(t, err)
			patient, err := pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: time.Minute})
			require.NoError(t, err)
			nothing := store.BrowseRequest{From: time.Unix(0, 0), Limit: 1, States: []store.State{store.StateCancelled}}
			require.Eventually(t, func() bool { // a fast machine reads 20,000 records in some milliseconds
				_, err = hasty.Browse(t.Context(), nothing)
				return err != nil
			}, time.Minute, time.Millisecond)
			require.ErrorIs(t, err, store.ErrTooSlow)
			var pgErr *pgconn.PgError
			require.ErrorAs(t, err, &pgErr, "the server has ended it")
			require.Equal(t, "57014", pgErr.Code)
			found, err := patient.Browse(t.Context(), nothing)
			require.NoError(t, err)
			require.Empty(t, found)
			var left string
			require.NoError(t, pool.QueryRow(t.Context(), "select current_setting('statement_timeout') || current_setting('enable_seqscan')").Scan(&left))
			require.Equal(t, "0on", left, "no setting outlives its transaction")
		})
	}
}

// A reader waits behind a lock on the table no longer than its timeout, also on a connection that does not know the
// statement. It takes no lock that a request waits for.
func TestReader_locks(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	warm := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: 50 * time.Millisecond})
	fresh := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: 50 * time.Millisecond})
	finds := func(look func() error, want error) { // without the lock: at last, on a busy machine
		t.Helper()
		until(t, "an answer in 50 ms", func() bool { return errors.Is(look(), want) })
	}
	show := func(r *pgstore.Reader) func() error {
		return func() error { _, err := r.Show(t.Context(), random()); return err }
	}
	finds(show(warm), store.ErrNotFound)
	finds(func() error { _, err := fresh.Attention(t.Context()); return err }, nil)
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "lock table idempotency in access exclusive mode")
	require.NoError(t, err)
	for _, r := range []*pgstore.Reader{warm, fresh} {
		err := show(r)()
		require.ErrorIs(t, err, store.ErrTooSlow)
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr, "the server has ended it")
		require.Equal(t, "57014", pgErr.Code)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	finds(show(warm), store.ErrNotFound)
	finds(show(fresh), store.ErrNotFound)
}

// A reader changes nothing, whatever a statement says: its transactions only read.
func TestReader_onlyReads(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	r := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: time.Minute})
	err := r.Ask(t.Context(), "delete from idempotency")
	var pgErr *pgconn.PgError
	require.True(t, errors.As(err, &pgErr), "%v", err)
	require.Equal(t, "25006", pgErr.Code)
}

// Several processes make the indexes at once, while requests go on.
func TestAddReaderIndexes_atOnce(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := pgstore.AddReaderIndexes(t.Context(), look, ""); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { _ = s.Settle(t.Context(), claim(t, s), completion) })
	}
	wg.Wait()
	require.NoError(t, pgstore.AddReaderIndexes(t.Context(), look, ""), "again")
	require.Equal(t, 2, queryRow[int](t, look, `select count(*)::int from pg_index x join pg_class c on c.oid = x.indexrelid
		where x.indisvalid and c.relname in ('idempotency_created_at', 'idempotency_children')`))
}

// A build that was given up leaves an invalid index. The next call makes it anew.
func TestAddReaderIndexes_afterABrokenBuild(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	older, err := look.Begin(t.Context()) // a build waits for its end
	require.NoError(t, err)
	defer func() { _ = older.Rollback(context.Background()) }()
	_, err = older.Exec(t.Context(), "lock table idempotency in row exclusive mode")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- pgstore.AddReaderIndexes(ctx, look, "") }()
	const invalid = "select exists (select from pg_index where indrelid = 'idempotency'::regclass and not indisvalid)"
	require.Eventually(t, func() bool { return queryRow[bool](t, look, invalid) }, time.Minute, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.True(t, queryRow[bool](t, look, invalid))
	r := openReader(t, look, pgstore.ReaderConfig{})
	_, err = r.Browse(t.Context(), store.BrowseRequest{Limit: 1})
	require.ErrorIs(t, err, store.ErrNoIndex, "an invalid index does not count")

	require.NoError(t, older.Rollback(t.Context()))
	require.NoError(t, pgstore.AddReaderIndexes(t.Context(), look, ""))
	require.False(t, queryRow[bool](t, look, invalid))
	_, err = r.Browse(t.Context(), store.BrowseRequest{Limit: 1})
	require.NoError(t, err)
}

func TestAddReaderIndexes_refuses(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	require.ErrorIs(t, pgstore.AddReaderIndexes(t.Context(), look, "a, b"), pgstore.ErrConfig)
	require.ErrorIs(t, pgstore.AddReaderIndexes(t.Context(), nil, ""), pgstore.ErrConfig)
	require.ErrorIs(t, pgstore.AddReaderIndexes(t.Context(), look, "nowhere"), pgstore.ErrSchemaMissing)
	exec(t, look, "create index idempotency_children on idempotency (expires_at)")
	require.ErrorIs(t, pgstore.AddReaderIndexes(t.Context(), look, ""), pgstore.ErrConfig)
}
