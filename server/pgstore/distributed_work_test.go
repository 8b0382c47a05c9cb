package pgstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// distributedLedger is ledger on distributed tables.
func distributedLedger(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool := distributedPool(tb)
	exec(tb, pool, "create table effect (what text)")
	exec(tb, pool, "select create_distributed_table('effect', 'what', colocate_with => 'none')")
	return pool
}

func TestDistributed_barrier(t *testing.T) {
	t.Parallel()
	testBarrier(t, distributedLedger(t))
}

func TestDistributed_inbox(t *testing.T) {
	t.Parallel()
	pgkittest.CitusURL(t)
	testConsumerDies(t, func(t *testing.T) *pgxpool.Pool { t.Helper(); return distributedPool(t) })
}

// The key and the work commit together, on however many nodes they are.
func TestDistributed_once(t *testing.T) {
	t.Parallel()
	pool := distributedLedger(t)
	s := openOn(t, pool, pgstore.Config{})
	forms := map[string]func(req pgstore.OnceRequest, work string) (bool, error){
		"Once": func(req pgstore.OnceRequest, work string) (first bool, err error) {
			err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if first, err = pgstore.Once(t.Context(), tx, req); err != nil || !first {
					return err
				}
				_, err = tx.Exec(t.Context(), work)
				return err
			})
			return first && err == nil, err
		},
		"OnceFunc": func(req pgstore.OnceRequest, work string) (bool, error) {
			return s.OnceFunc(t.Context(), req, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, work)
				return err
			})
		},
		"SendOnce": func(req pgstore.OnceRequest, work string) (bool, error) {
			batch := new(pgx.Batch)
			batch.Queue(work)
			return s.SendOnce(t.Context(), req, batch)
		},
	}
	for name, do := range forms {
		req := invoice(t, name, "p")
		first, err := do(req, "insert into nowhere values (1)")
		require.Error(t, err, name)
		require.False(t, first, name)
		require.Zero(t, queryRow[int](t, pool, "select count(*) from idempotency where key = $1", [16]byte(store.NewID("tenant", "", req.Key))), name)
		for i := range 3 {
			first, err = do(req, "insert into effect values ('"+name+"')")
			require.NoError(t, err, name)
			require.Equal(t, i == 0, first, name)
		}
		require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect where what = $1", name), name)
	}
}

func TestDistributed_partitions(t *testing.T) {
	t.Parallel()
	look := distributedPool(t)
	exec(t, look, "create table idempotency_answer_old partition of idempotency_answer for values from ('2020-01-01') to ('2020-01-02')")
	s := openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
	require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour), "a second time")
	require.True(t, queryRow[bool](t, look, "select to_regclass('idempotency_answer_old') is null"), "its time is past")
	settleAll(t, s, 20)
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{21, 0}, []int{apart, inline})

	o := claim(t, s)
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "select count(*) from idempotency")
	require.NoError(t, err)
	require.NoError(t, tx.Settle(t.Context(), o, completion))
	require.Equal(t, completion.Answer, read(t, s, o.ID).Answer)
	r, ok, err := s.Forget(t.Context(), o.ID, o.Fence, someone)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, completion.Answer, r.Answer)
	apart, inline = inPartitions(t, look)
	require.Equal(t, []int{21, 0}, []int{apart, inline})
}

// settleAll completes one run, and then n more at the same time.
func settleAll(t *testing.T, s *pgstore.Store, n int) {
	t.Helper()
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	require.Equal(t, completion.Answer, read(t, s, o.ID).Answer)
	owners := make([]store.Owner, n)
	for i := range owners {
		owners[i] = claim(t, s)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, o := range owners {
		wg.Go(func() { errs[i] = s.Settle(t.Context(), o, completion) })
	}
	wg.Wait()
	for i, o := range owners {
		require.NoError(t, errs[i])
		require.Equal(t, completion.Answer, read(t, s, o.ID).Answer)
	}
}

// Two stores claim the same keys as fast as they can, 160,000 claims in all. Each key has one winner.
func TestDistributed_contest(t *testing.T) {
	t.Parallel()
	const keys, callers = 5_000, 16
	look := distributedPool(t)
	ids := make([]store.ID, keys)
	for i := range ids {
		ids[i] = random()
	}
	wins := make([]atomic.Int32, keys)
	var failure atomic.Pointer[error]
	began := time.Now()
	var wg sync.WaitGroup
	for range 2 {
		s := openOn(t, look, pgstore.Config{})
		for range callers {
			wg.Go(func() {
				for i, id := range ids {
					_, won, err := s.Claim(t.Context(), claimOf(id))
					if err != nil {
						failure.Store(&err)
						return
					}
					if won {
						wins[i].Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		t.Fatal(*err)
	}
	for i := range wins {
		require.EqualValues(t, 1, wins[i].Load(), "winners of key %d", i)
	}
	require.Equal(t, keys, queryRow[int](t, look, "select count(*) from idempotency where fence = 1"))
	t.Logf("%d claims in %v", 2*callers*keys, time.Since(began))
}
