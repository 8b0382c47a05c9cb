package pgjournal_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// newCitusStock lends distributed tables to the rules of one test.
func newCitusStock(owner *testing.T) stock {
	return stock{pgkittest.NewCitusStock(owner, setUpDistributed, tables...)}
}

// distributedTables returns a pool on distributed tables in a schema of tb's own.
func distributedTables(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := pgkittest.NewCitusPool(tb)
	require.NoError(tb, setUpDistributed(tb.Context(), look, ""))
	return look
}

func setUpDistributed(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgjournal.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	return pgjournal.Distribute(ctx, pool, schema)
}

func TestDistributed_journal(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal { return openOn(tb, databases.lend(tb), pgjournal.Config{}) })
}

func TestDistributed_combiningOff(t *testing.T) {
	t.Parallel()
	databases := newCitusStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		return openOn(tb, databases.lend(tb), pgjournal.Config{SeparateCommits: true, Confirm: pgjournal.ConfirmAlways})
	})
}

// An engine executes sagas on distributed tables: its own, and those that a transaction of a user's
// stored.
func TestDistributed_engine(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	j := openOn(t, look, pgjournal.Config{})
	c := newCallees(t)
	e := engineOn(t, j, c)
	keys := make([]childkey.Key, 8)
	require.NoError(t, pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
		for i := range keys {
			keys[i] = childkey.MustNew()
			if created, err := pgjournal.Start(t.Context(), tx, idle, keys[i], journey{Trip: "t"}, j.StartConfig()); err != nil || !created {
				t.Errorf("created = %v, %v", created, err)
			}
		}
		return nil
	}))
	together(len(keys), func(i int) {
		for _, key := range []childkey.Key{keys[i], childkey.MustNew()} {
			if _, err := idle.Run(t.Context(), e, key, journey{Trip: "t"}); err != nil {
				t.Error(err)
			}
		}
	})
	require.Equal(t, 2*len(keys), queryRow[int](t, look, "select count(*) from saga where status = 3"))
	closeEngine(t, e)
	require.NoError(t, j.Check(t.Context()))
}

func TestDistribute(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	require.NoError(t, pgjournal.Distribute(t.Context(), look, ""), "a second time")
	const together = `select count(distinct colocationid) from pg_dist_partition
		where logicalrelid = any (array['saga', 'saga_result', 'saga_local', 'saga_signal', 'saga_audit']::regclass[])`
	require.Equal(t, 1, queryRow[int](t, look, together))

	cfg := look.Config()
	pgjournal.Prepare(cfg)
	for _, distributed := range []bool{false, true} {
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		j, err := pgjournal.New(pool, pgjournal.Config{Distributed: distributed, AllowNonDurable: true})
		require.NoError(t, err)
		t.Cleanup(j.Close)
		if err := j.Check(t.Context()); distributed {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, pgjournal.ErrConfig, "statements that do not suit the tables")
		}
	}
}

// Sagas that are there are moved with all that belongs to them.
func TestDistribute_rows(t *testing.T) {
	t.Parallel()
	look := pgkittest.NewCitusPool(t)
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""))
	plain := openOn(t, look, pgjournal.Config{})
	r := start(t, plain, beat(t, plain, time.Hour))
	r = write(t, plain, r, journal.Write{Entries: []journal.Entry{withResult("a.b", make([]byte, 40<<10))}})
	plain.Close()
	require.NoError(t, pgjournal.Distribute(t.Context(), look, ""))
	j := openOn(t, look, pgjournal.Config{})
	got, err := j.Read(t.Context(), r.ID)
	require.NoError(t, err)
	r.Now = got.Now
	require.Equal(t, r, got)
	write(t, j, got, journal.Write{Entries: []journal.Entry{withResult("c.d", make([]byte, 40<<10))}})
	_, changed, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: got.Revision + 1, Status: journal.Running, By: someone})
	require.NoError(t, err)
	require.True(t, changed)
	moved, changed, err := j.Change(t.Context(), journal.Change{ID: r.ID, Revision: got.Revision + 2, Plan: journal.PlanHash{7}, Version: 7, By: someone})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, 7, moved.Version)
	require.Len(t, moved.Entries, 2, "its large results stay")
	require.Len(t, moved.Entries[1].Result, 40<<10)
}

func TestDistribute_refuses(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	require.ErrorIs(t, pgjournal.Distribute(t.Context(), look, ""), pgjournal.ErrNoCitus)
	require.ErrorIs(t, pgjournal.Distribute(t.Context(), look, "no good"), pgjournal.ErrConfig)
	require.ErrorIs(t, pgjournal.Distribute(t.Context(), nil, ""), pgjournal.ErrConfig)
	pool, err := pgxpool.NewWithConfig(t.Context(), prepared(look.Config()))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	j, err := pgjournal.New(pool, pgjournal.Config{Distributed: true, AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(j.Close)
	require.ErrorIs(t, j.Check(t.Context()), pgjournal.ErrConfig, "the tables are not distributed")
	require.ErrorIs(t, pgjournal.Distribute(t.Context(), pgkittest.NewCitusPool(t), ""), pgjournal.ErrSchemaMissing)
}

func prepared(cfg *pgxpool.Config) *pgxpool.Config {
	pgjournal.Prepare(cfg)
	return cfg
}
