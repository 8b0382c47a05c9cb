package pgjournal_test

import (
	"context"
	"sync"
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

// The whole conformance suite passes with only the rights of the role that engines have.
func TestJournal(t *testing.T) {
	t.Parallel()
	databases := newStock(t)
	var runtimes sync.Map // the role of each database
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		look := databases.lend(tb)
		runtime, ok := runtimes.Load(look)
		if !ok {
			runtime = roles(t, look).Runtime
			runtimes.Store(look, runtime)
		}
		return openOn(tb, look, pgjournal.Config{}, as(runtime.(string))) //nolint:forcetypeassert // stored above
	})
}

// Without combining each write is sent as a lone one is with it, and more of them meet in the server.
func TestJournal_separateCommits(t *testing.T) {
	t.Parallel()
	databases, concerned := newStock(t), pgkittest.NewRules(t, "append", "start")
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		concerned.SkipOthers(tb)
		j := openOn(tb, databases.lend(tb), pgjournal.Config{SeparateCommits: true})
		require.Zero(tb, j.Queued())
		return j
	})
}

// A stock lends databases to the rules of one test.
type stock struct{ *pgkittest.Stock }

// tables are those that a test fills.
var tables = []string{"saga", "saga_result", "saga_local", "saga_signal", "saga_engine", "saga_plan", "saga_audit"}

func newStock(owner *testing.T) stock {
	return stock{pgkittest.NewStock(owner, pgjournal.Migrate, tables...)}
}

// newSchemaStock is newStock with the tables in a schema.
func newSchemaStock(owner *testing.T, schema string) *pgkittest.Stock {
	var there []string
	for _, table := range tables {
		there = append(there, schema+"."+table)
	}
	migrate := func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		return pgjournal.Migrate(ctx, pool, schema)
	}
	return pgkittest.NewStock(owner, migrate, there...)
}

func (s stock) lend(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	look := s.Lend(tb)
	tb.Cleanup(func() { requireSound(tb, look) })
	return look
}

// The whole suite once more, as unlike TestJournal as can be. A PgBouncer in transaction mode may send two statements
// outside a transaction to different sessions. The sessions have the default SERIALIZABLE, where the loser of a start
// would get an error instead of the saga. The tables are in a schema of another name, values are sealed by a codec, and
// writes that are relied on are confirmed.
func TestJournal_throughPgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PooledURL(t, pgtest.URL(t)) // skips the test as a whole
	databases := newSchemaStock(t, "orders")
	sagatest.TestJournal(t, func(tb testing.TB) journal.Journal {
		look := databases.Lend(tb)
		tb.Cleanup(func() { requireSoundIn(tb, look, "orders") })
		exec(tb, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = 'serializable'")
		cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
		require.NoError(tb, err)
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		j, err := pgjournal.Open(tb.Context(), cfg, pgjournal.Config{
			Schema: "orders", Codec: aesGCM(tb, "k1"), Confirm: pgjournal.ConfirmAlways, AllowNonDurable: true,
		})
		require.NoError(tb, err)
		tb.Cleanup(j.Close)
		return j
	})
}
