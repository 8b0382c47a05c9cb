package pgjournal_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// newReader returns a reader on a pool of its own to the database of look.
func newReader(tb testing.TB, look *pgxpool.Pool, cfg pgjournal.ReaderConfig, changes ...func(*pgxpool.Config)) *pgjournal.Reader {
	tb.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	return readerAt(tb, poolCfg, cfg)
}

func readerAt(tb testing.TB, poolCfg *pgxpool.Config, cfg pgjournal.ReaderConfig) *pgjournal.Reader {
	tb.Helper()
	pgjournal.Prepare(poolCfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), poolCfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	r, err := pgjournal.NewReader(pool, cfg)
	require.NoError(tb, err)
	return r
}

func TestReader(t *testing.T) {
	t.Parallel()
	databases := newStock(t)
	sagatest.TestReader(t, func(tb testing.TB) (journal.Journal, journal.Reader) {
		look := databases.lend(tb)
		require.NoError(tb, pgjournal.AddReaderIndexes(tb.Context(), look, ""))
		return openOn(tb, look, pgjournal.Config{}), newReader(tb, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute})
	})
}

// A reader with a codec searches sealed values too. It reads through a pooler, from a schema of another name, with the
// rights of the runtime role.
func TestReader_sealedThroughPgBouncerAsRuntime(t *testing.T) {
	t.Parallel()
	pgtest.PooledURL(t, pgtest.URL(t)) // skips the test as a whole
	databases := newSchemaStock(t, "orders")
	sagatest.TestReader(t, func(tb testing.TB) (journal.Journal, journal.Reader) {
		look := databases.Lend(tb)
		require.NoError(tb, pgjournal.AddReaderIndexes(tb.Context(), look, "orders"))
		codec := aesGCM(tb, "k1")
		j := openOn(tb, look, pgjournal.Config{Schema: "orders", Codec: codec})
		cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
		require.NoError(tb, err)
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		return j, readerAt(tb, cfg, pgjournal.ReaderConfig{Schema: "orders", StatementTimeout: time.Minute, Codec: codec})
	})
}

// An observer sees lists without causes, and the log. What needs more says so.
func TestReader_asObserver(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	of := roles(t, look)
	observer, runtime := newReader(t, look, pgjournal.ReaderConfig{}, as(of.Observer)), newReader(t, look, pgjournal.ReaderConfig{}, as(of.Runtime))
	r := start(t, j, beat(t, j, time.Minute))
	r = write(t, j, r, journal.Write{Status: journal.Stuck, StuckOn: &journal.Failure{Reason: journal.ReasonStep, Step: "a.b"}})
	_, _, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Stuck, By: someone})
	require.NoError(t, err)

	for _, statuses := range [][]journal.Status{nil, {journal.Stuck}} {
		page, err := observer.Browse(t.Context(), journal.BrowseRequest{Statuses: statuses, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, journal.Stuck, page[0].Status)
		require.Equal(t, r.CreatedAt, page[0].CreatedAt)
		require.Nil(t, page[0].StuckOn)
		require.NoError(t, page[0].Corrupt)
	}
	for name, call := range map[string]func(r *pgjournal.Reader) error{
		"Plan":     func(r *pgjournal.Reader) error { _, err := r.Plans(t.Context()); return err },
		"Stats":    func(r *pgjournal.Reader) error { _, err := r.Stats(t.Context()); return err },
		"Estimate": func(r *pgjournal.Reader) error { _, err := r.Estimate(t.Context()); return err },
		"AuditPage": func(r *pgjournal.Reader) error {
			_, err := r.AuditPage(t.Context(), journal.AuditRequest{Limit: 1})
			return err
		},
	} {
		require.NoError(t, call(observer), name)
	}
	for name, call := range map[string]func(r *pgjournal.Reader) error{
		"Show": func(of *pgjournal.Reader) error { _, err := of.Show(t.Context(), r.ID); return err },
		"Browse by a step": func(of *pgjournal.Reader) error {
			_, err := of.Browse(t.Context(), journal.BrowseRequest{StuckOn: "a.b", Limit: 1})
			return err
		},
	} {
		require.ErrorIs(t, call(observer), pgjournal.ErrPrivilege, name)
		require.NoError(t, call(runtime), name)
	}
}

// Sagas that were stored at the same time come each once, whatever the pages.
func TestReader_ties(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	fill(t, look, 50, aPlan, due)
	exec(t, look, "update saga set created_at = date_trunc('second', clock_timestamp()) - (position('7' in id::text) % 3) * interval '1 second'")
	r := newReader(t, look, pgjournal.ReaderConfig{})
	for _, statuses := range [][]journal.Status{nil, {journal.Running, journal.Stuck}} {
		for _, limit := range []int{1, 7, 49} {
			seen := make(map[journal.ID]bool)
			req := journal.BrowseRequest{Statuses: statuses, Limit: limit}
			for {
				page, err := r.Browse(t.Context(), req)
				require.NoError(t, err)
				for _, rec := range page {
					require.False(t, seen[rec.ID], "a saga came twice")
					seen[rec.ID] = true
					req.Before = journal.Cursor{CreatedAt: rec.CreatedAt, ID: rec.ID}
				}
				if len(page) < limit {
					break
				}
			}
			require.Len(t, seen, 50, "in pages of %d", limit)
		}
	}
}

// The server ends a search that takes too long, and a reader without the index says what to do.
func TestReader_bounds(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	fill(t, look, 10, aPlan, due)
	r := newReader(t, look, pgjournal.ReaderConfig{StatementTimeout: time.Minute})
	_, err := r.Browse(t.Context(), journal.BrowseRequest{Limit: 10})
	require.ErrorIs(t, err, journal.ErrNoIndex)
	require.ErrorContains(t, err, "fanonce migrate up --component reader")
	_, err = r.Browse(t.Context(), journal.BrowseRequest{Limit: 10, Statuses: []journal.Status{journal.Running}})
	require.NoError(t, err, "unfinished sagas need no further index")

	r = newReader(t, look, pgjournal.ReaderConfig{StatementTimeout: 50 * time.Millisecond})
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "lock table saga, saga_audit, saga_plan in access exclusive mode")
	require.NoError(t, err)
	for name, call := range map[string]func(ctx context.Context) error{
		"Show":  func(ctx context.Context) error { _, err := r.Show(ctx, journal.ID{}); return err },
		"Stats": func(ctx context.Context) error { _, err := r.Stats(ctx); return err },
		"Plans": func(ctx context.Context) error { _, err := r.Plans(ctx); return err },
		"AuditPage": func(ctx context.Context) error {
			_, err := r.AuditPage(ctx, journal.AuditRequest{Limit: 1})
			return err
		},
	} {
		require.ErrorIs(t, call(t.Context()), journal.ErrTooSlow, name)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	rec := start(t, j, beat(t, j, time.Minute))
	until(t, "the lock is gone, and the server is quick enough", func() bool {
		_, err = r.Show(t.Context(), rec.ID)
		return err == nil
	})
}

// A reader without the codec shows where sealed sagas stand, and says what it cannot read.
func TestReader_withoutTheCodec(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
	r := start(t, j, beat(t, j, time.Minute))
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{completed("a.b")}, Status: journal.Stuck, StuckOn: &journal.Failure{Reason: journal.ReasonStep, Step: "a.b"}})
	reader := newReader(t, look, pgjournal.ReaderConfig{})
	got, err := reader.Show(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, journal.Stuck, got.Status)
	require.ErrorIs(t, got.Corrupt, journal.ErrNewer)
	page, err := reader.Browse(t.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 1})
	require.NoError(t, err)
	require.ErrorIs(t, page[0].Corrupt, journal.ErrNewer)
}

func TestNewReader_badConfig(t *testing.T) {
	t.Parallel()
	plain, err := pgxpool.New(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(plain.Close)
	_, err = pgjournal.NewReader(plain, pgjournal.ReaderConfig{})
	require.ErrorIs(t, err, pgjournal.ErrNotPrepared)
	for _, cfg := range []pgjournal.ReaderConfig{{StatementTimeout: -1}, {StatementTimeout: time.Microsecond}, {StatementTimeout: 2 * time.Hour}, {Schema: "X; drop"}} {
		_, err := pgjournal.NewReader(nil, cfg)
		require.ErrorIs(t, err, pgjournal.ErrConfig, "%+v", cfg)
	}
}

// The index is made once, an invalid one is made anew, and another one of its name is left alone.
func TestAddReaderIndexes(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	index := func() string {
		return queryRow[string](t, look, "select string_agg(indexrelid::text || indisvalid, ' ') from pg_index where indrelid = 'saga'::regclass and indexrelid::regclass::text = 'saga_created_at'")
	}
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- pgjournal.AddReaderIndexes(t.Context(), look, "") }()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	made := index()
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	require.Equal(t, made, index(), "it was made anew")
	exec(t, look, "update pg_index set indisvalid = false where indexrelid = 'saga_created_at'::regclass")
	require.NoError(t, pgjournal.AddReaderIndexes(t.Context(), look, ""))
	require.NotEqual(t, made, index())
	require.True(t, strings.HasSuffix(index(), "true"))

	exec(t, look, "drop index saga_created_at; create index saga_created_at on saga (name)")
	require.ErrorIs(t, pgjournal.AddReaderIndexes(t.Context(), look, ""), pgjournal.ErrConfig)
	require.ErrorIs(t, pgjournal.AddReaderIndexes(t.Context(), look, "X"), pgjournal.ErrConfig)
	require.ErrorIs(t, pgjournal.AddReaderIndexes(t.Context(), look, "elsewhere"), pgjournal.ErrSchemaMissing)
}
