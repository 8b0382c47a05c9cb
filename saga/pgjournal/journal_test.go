package pgjournal_test

import (
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

// Where SERIALIZABLE is the default, the loser of a start would get an error instead of the saga.
func TestJournal_serializableDefault(t *testing.T) {
	t.Parallel()
	databases := newStock(t)
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		return openOn(tb, databases.lend(tb), pgjournal.Config{}, serializable)
	})
}

// The whole suite, where no two statements outside a transaction need meet the same
// session.
func TestJournal_throughPgBouncer(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
				j, _ := pooled(tb, level)
				return j
			})
		})
	}
}

// pooled returns a journal that reaches its database through a PgBouncer in
// transaction mode, and a pool that looks at the database directly. level is the
// default of the database.
func pooled(tb testing.TB, level string) (*pgjournal.Journal, *pgxpool.Pool) {
	tb.Helper()
	look := pgtest.NewPool(tb, pgjournal.Migrate)
	exec(tb, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
	cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
	require.NoError(tb, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	j, err := pgjournal.Open(tb.Context(), cfg, pgjournal.Config{AllowNonDurable: true})
	require.NoError(tb, err)
	tb.Cleanup(j.Close)
	return j, look
}

// Two services can keep their sagas apart in one database.
func TestJournal_namedSchema(t *testing.T) {
	t.Parallel()
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		look := pgtest.NewPool(tb, nil)
		require.NoError(tb, pgjournal.Migrate(tb.Context(), look, "orders"))
		return openOn(tb, look, pgjournal.Config{Schema: "orders"})
	})
}
