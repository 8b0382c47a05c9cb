package pgjournal_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	databases := newStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal { return openOn(tb, databases.lend(tb), pgjournal.Config{}) })
}

// Without combining each write is what a lone one is with it, and more of them
// meet in the server. And what is relied on is confirmed, as where a standby's word
// counts.
func TestJournal_combiningOff(t *testing.T) {
	t.Parallel()
	databases := newStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		j := openOn(tb, databases.lend(tb), pgjournal.Config{SeparateCommits: true, Confirm: pgjournal.ConfirmAlways})
		require.Zero(tb, j.Queued())
		return j
	})
}

// A stock lends databases to the rules of one test.
type stock struct{ *pgkittest.Stock }

// tables are those that a test fills.
var tables = []string{"saga", "saga_result", "saga_engine", "saga_plan", "saga_audit"}

func newStock(owner *testing.T) stock {
	return stock{pgkittest.NewStock(owner, pgjournal.Migrate, tables...)}
}

func (s stock) lend(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := s.Lend(tb)
	tb.Cleanup(func() { requireSound(tb, look) })
	return look
}

// serializable is the default of the database, not a choice of the journal's.
func serializable(cfg *pgxpool.Config) {
	cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
}

// The whole suite, where no two statements outside a transaction need meet the same session. Where SERIALIZABLE is
// the default, the loser of a start would get an error instead of the saga.
func TestJournal_throughPgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PooledURL(t, pgtest.URL(t)) // skips the test as a whole
	databases := newStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal { return pooled(tb, databases.lend(tb), "serializable") })
}

// pooled opens a journal that reaches look's database through a PgBouncer in transaction mode. level is the default
// of the database.
func pooled(tb testing.TB, look *pgxpool.Pool, level string) *pgjournal.Journal {
	tb.Helper()
	exec(tb, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
	cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
	require.NoError(tb, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	j, err := pgjournal.Open(tb.Context(), cfg, pgjournal.Config{AllowNonDurable: true})
	require.NoError(tb, err)
	tb.Cleanup(j.Close)
	return j
}

// Two services can keep their sagas apart in one database. Its sessions have the default SERIALIZABLE, and the journal
// takes READ COMMITTED all the same.
func TestJournal_namedSchema(t *testing.T) {
	t.Parallel()
	var there []string
	for _, table := range tables {
		there = append(there, "orders."+table)
	}
	migrate := func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		return pgjournal.Migrate(ctx, pool, "orders")
	}
	databases := pgkittest.NewStock(t, migrate, there...)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		return openOn(tb, databases.Lend(tb), pgjournal.Config{Schema: "orders"}, serializable)
	})
}
