package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// pooled returns a store that reaches its database through a PgBouncer in
// transaction mode. It also returns a pool that looks at the database directly.
// level is the default isolation level of the database.
func pooled(tb testing.TB, level string, mode pgx.QueryExecMode) (*pgstore.Store, *pgxpool.Pool) {
	tb.Helper()
	look := pgtest.NewPool(tb, pgstore.Migrate)
	return pooledOn(tb, look, level, mode), look
}

func pooledOn(tb testing.TB, look *pgxpool.Pool, level string, mode pgx.QueryExecMode) *pgstore.Store {
	tb.Helper()
	exec(tb, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
	cfg, err := pgxpool.ParseConfig(pgtest.PooledURL(tb, look.Config().ConnString()))
	require.NoError(tb, err)
	cfg.ConnConfig.DefaultQueryExecMode = mode
	s, err := pgstore.Open(tb.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	return s
}

// The whole conformance suite passes where two statements outside a transaction may run in different sessions. With
// the default READ COMMITTED a store sends less for the same level: the next test has that.
func TestStore_throughPgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PooledURL(t, pgtest.URL(t)) // skips the test as a whole
	databases := newStock(t, nil)
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		look, _ := databases.lend(tb)
		return withoutTx{pooledOn(tb, look, "serializable", pgx.QueryExecModeExec)}
	})
}

func TestTxStore_throughPgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PooledURL(t, pgtest.URL(t))
	databases := newEffectsStock(t, nil)
	servertest.TestTxStore(t, func(tb testing.TB) (store.TxStore, servertest.Effects) {
		look, _ := databases.lend(tb)
		return pooledOn(tb, look, "read committed", pgx.QueryExecModeCacheDescribe), rows{look}
	})
}

// The default exec mode of pgx needs a session. [pgstore.Prepare] changes that
// mode, and keeps the other modes. One of the kept modes is for direct
// connections only: DescribeExec uses a description in a second round trip,
// which may reach another session.
func TestStore_execModesThroughPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s, _ := pooled(t, "read committed", mode)
			var wg sync.WaitGroup
			for range 16 { // else one connection to the server would do for all
				wg.Go(func() {
					for range 5 {
						if err := everyRequest(t.Context(), s); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// everyRequest sends what requests send.
func everyRequest(ctx context.Context, s *pgstore.Store) error {
	req := newClaim()
	r, won, err := s.Claim(ctx, req)
	if err != nil || !won {
		return fmt.Errorf("claim: won %v, %w", won, err)
	}
	o := store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}
	if got, err := s.Renew(ctx, []store.Owner{o}, time.Hour); err != nil || len(got.Renewed) != 1 {
		return fmt.Errorf("renew: %+v, %w", got, err)
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if _, err := pgstore.Tx(tx.NewContext(ctx)).Exec(ctx, "select $1::int", 1); err != nil {
		return fmt.Errorf("first statement: %w", errors.Join(err, tx.Rollback(ctx)))
	}
	if err := tx.Settle(ctx, o, completion); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if r, won, err = s.Claim(ctx, claimOf(o.ID)); err != nil || won || r.State != store.StateCompleted {
		return fmt.Errorf("duplicate: won %v, state %v, %w", won, r.State, err)
	}
	return nil
}
