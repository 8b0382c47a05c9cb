package outbox_test

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

func citusPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgkittest.NewCitusPool(t)
	require.NoError(t, outbox.Migrate(t.Context(), pool, ""))
	return pool
}

// All works on the coordinator of a Citus as it does on one server.
func TestDistributed(t *testing.T) {
	t.Parallel()
	pgkittest.CitusURL(t)
	for name, test := range map[string]func(*testing.T, func(*testing.T) *pgxpool.Pool){
		"with the run": testWriteWithTheRun, "round trip": testWriteRoundTrip, "order of commits": testWriteOrdersCommits,
		"failing aggregate": testRelayFailingAggregate, "share": testRelayShare, "killed": testRelayKilled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, citusPool)
		})
	}
}

// A message and a row on a worker are committed in two phases. Otherwise the worker's commit would come first, and a
// crash of the coordinator after it would lose the message.
func TestDistributed_twoPhases(t *testing.T) {
	t.Parallel()
	pool, box := citusPool(t), newBox(t)
	_, err := pool.Exec(t.Context(), "create table orders (id int primary key)")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "select create_distributed_table('orders', 'id')")
	require.NoError(t, err)
	var mu sync.Mutex
	var sent []string // to the workers
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["citus.log_remote_commands"] = "on"
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, n.Message)
	}
	loud, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(loud.Close)
	require.NoError(t, pgx.BeginFunc(t.Context(), loud, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "insert into orders values (1)"); err != nil {
			return err
		}
		_, err := box.WriteTx(t.Context(), tx, outbox.Message{Topic: "t", Aggregate: "a"})
		return err
	}))
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, strings.Join(sent, "\n"), "PREPARE TRANSACTION")
}

// Messages that were there before keep their order, and new ones come behind them.
func TestDistributed_messages(t *testing.T) {
	t.Parallel()
	pool, box := pgkittest.NewCitusPool(t), newBox(t)
	step, err := fs.ReadFile(outbox.MigrationFiles, "0001_outbox.up.sql") // as another migration tool does it
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), string(step))
	require.NoError(t, err)
	write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "a", Payload: []byte("1")})
	write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "a", Payload: []byte("2")})
	require.NoError(t, outbox.Distribute(t.Context(), pool, ""))
	require.NoError(t, outbox.Distribute(t.Context(), pool, ""), "a second time")
	require.NoError(t, outbox.Migrate(t.Context(), pool, ""), "after it")
	write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "a", Payload: []byte("3")})
	b := new(broker)
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish})
	until(t, "all are published", func() bool { return len(b.payloads("a")) == 3 })
	require.Equal(t, []string{"1", "2", "3"}, b.payloads("a"))
}

func TestDistribute_refuses(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, outbox.Migrate)
	require.ErrorIs(t, outbox.Distribute(t.Context(), pool, ""), pgstore.ErrNoCitus)
	require.ErrorIs(t, outbox.Distribute(t.Context(), pool, "no good"), outbox.ErrConfig)
	require.ErrorIs(t, outbox.Distribute(t.Context(), nil, ""), outbox.ErrConfig)
	require.ErrorIs(t, outbox.Migrate(t.Context(), nil, ""), outbox.ErrConfig)
}

func TestDistributed_missing(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, outbox.Distribute(t.Context(), pgkittest.NewCitusPool(t), ""), pgstore.ErrSchemaMissing)
}
