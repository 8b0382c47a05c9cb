package pgkittest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
)

func lendable(ctx context.Context, pool *pgxpool.Pool, _ string) error {
	_, err := pool.Exec(ctx, `create table lendable (n int); create schema "other one"; create table "other one".lendable (n int); create table kept (n int)`)
	return err
}

func TestStock(t *testing.T) {
	stock := pgkittest.NewStock(t, lendable, "lendable", "other one.lendable")
	rows := func(t *testing.T, pool *pgxpool.Pool) (n, kept int) {
		t.Helper()
		err := pool.QueryRow(t.Context(), `select (select count(*) from lendable) + (select count(*) from "other one".lendable), (select count(*) from kept)`).Scan(&n, &kept)
		require.NoError(t, err)
		return n, kept
	}
	var first *pgxpool.Pool
	t.Run("one", func(t *testing.T) {
		first = stock.Lend(t)
		second := stock.Lend(t)
		require.NotSame(t, first, second, "each has its own")
		for _, pool := range []*pgxpool.Pool{first, second} {
			_, err := pool.Exec(t.Context(), `insert into lendable values (1); insert into "other one".lendable values (1); insert into kept values (1)`)
			require.NoError(t, err)
		}
	})
	t.Run("the next", func(t *testing.T) {
		again := stock.Lend(t)
		require.Same(t, first, again, "who lends last takes back first")
		n, kept := rows(t, again)
		require.Zero(t, n)
		require.Equal(t, 1, kept)
	})
}

func TestStock_lentToItsOwner(t *testing.T) {
	t.Run("owner", func(t *testing.T) {
		pool := pgkittest.NewStock(t, lendable, "lendable").Lend(t)
		t.Cleanup(func() { // after what Lend registered, so it runs before that
			_, err := pool.Exec(context.Background(), "drop table lendable")
			require.NoError(t, err)
		})
	})
}

// A failing is a test that has failed, and runs its cleanups when it is told to.
type failing struct {
	testing.TB

	cleanups []func()
}

func (f *failing) Failed() bool         { return true }
func (f *failing) Cleanup(clean func()) { f.cleanups = append(f.cleanups, clean) }

func TestStock_failedTest(t *testing.T) {
	stock := pgkittest.NewStock(t, lendable, "lendable")
	f := &failing{TB: t}
	left := stock.Lend(f)
	for _, clean := range f.cleanups {
		clean()
	}
	require.NotSame(t, left, stock.Lend(t))
}
