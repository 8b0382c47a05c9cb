package pgstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// violations counts statements that failed because a key was taken: each is an error in the server's log.
type violations struct{ n atomic.Int32 }

func (v *violations) watch(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = v }

func (v *violations) look(err error) {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "23505" {
		v.n.Add(1)
	}
}

func (v *violations) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (v *violations) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	v.look(data.Err)
}

func (v *violations) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (v *violations) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (v *violations) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	v.look(data.Err)
}

// A key that another process claims while a flush is under way makes the whole flush fail, as Postgres requires. Its
// writes are sent again as single statements in one transaction, and lose just that key. They do the same if the other
// process takes longer than the flush's lock timeout.
func TestCombining_collision(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	seen := new(violations)
	s := openOn(t, look, pgstore.Config{}, size(1), seen.watch)
	for range 100 {
		collided := collide(t, s, look, claim(t, s), 8)
		require.Equal(t, 1, commits(t, look, collided))
		if seen.n.Load() > 0 {
			return
		}
	}
	t.Fatal("no flush met a key that was claimed while it was under way")
}

func commits(t *testing.T, look *pgxpool.Pool, keys [][16]byte) int {
	t.Helper()
	return queryRow[int](t, look, "select count(distinct xmin::text) from idempotency where key = any ($1)", keys)
}

// collide sends a flush that settles for owner and claims several keys. Another session has inserted one of them and
// commits meanwhile. collide returns the other keys.
func collide(t *testing.T, s *pgstore.Store, look *pgxpool.Pool, owner store.Owner, claims int) [][16]byte {
	t.Helper()
	reqs, keys := make([]store.ClaimRequest, claims), [][16]byte{owner.ID}
	for i := range reqs {
		reqs[i] = newClaim()
		if i > 0 {
			keys = append(keys, reqs[i].ID)
		}
	}
	other, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = other.Rollback(context.Background()) }()
	_, err = other.Exec(t.Context(), `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
		values ($1, gen_random_uuid(), 1, 1, 2, 1, sha256(''), now(), now() + interval '1 hour', now() + interval '1 hour')`, [16]byte(reqs[0].ID))
	require.NoError(t, err)

	won := make([]bool, claims)
	wait := flushing(t, s, 1, claims+1, func(i int) (err error) {
		if i == claims {
			return s.Settle(t.Context(), owner, completion)
		}
		_, won[i], err = s.Claim(t.Context(), reqs[i])
		return err
	})
	ended := make(chan []error, 1)
	go func() { ended <- wait() }()
	// The flush waits no longer than its lock timeout, which a busy machine can outlast.
	until(t, "the flush waits, or has given up", func() bool { return len(ended) == 1 || waits(t, look, "transactionid") })
	require.NoError(t, other.Commit(t.Context()))
	for i, err := range <-ended {
		if i == 0 && errors.Is(err, store.ErrInProgress) { // the other's commit came after the lock timeout
			continue
		}
		require.NoError(t, err)
		require.True(t, i == claims || won[i] == (i > 0), "claim %d: won %v", i, won[min(i, claims-1)])
	}
	require.Equal(t, store.StateCompleted, read(t, s, owner.ID).State)
	return keys
}

// A broker that redelivers messages redelivers many. They cause no errors in the server's log, and leave no rows for
// vacuum.
func TestStore_OnceFunc_repeats(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	seen := new(violations)
	s := openOn(t, pool, pgstore.Config{}, size(1), seen.watch)
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, key := range keys {
		first, err := s.OnceFunc(t.Context(), invoice(t, key, "p"), effect)
		require.NoError(t, err)
		require.True(t, first)
	}
	for _, key := range keys {
		first, err := s.OnceFunc(t.Context(), invoice(t, key, "p"), neverCalled)
		require.NoError(t, err)
		require.False(t, first)
	}
	require.Zero(t, seen.n.Load())
	first, err := s.OnceFunc(t.Context(), invoice(t, "i", "p"), effect)
	require.NoError(t, err)
	require.True(t, first, "a new one among repeats")
	require.Equal(t, len(keys)+1, queryRow[int](t, pool, "select count(*) from effect"))
}

// During a reindex a new index replaces the keys' own. Keys are looked up in both: the older index has another name
// by then.
func TestStore_OnceFunc_reindex(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	request := invoice(t, "k", "p")
	first, err := s.OnceFunc(t.Context(), request, effect)
	require.NoError(t, err)
	require.True(t, first)

	older, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = older.Rollback(context.Background()) }()
	_, err = older.Exec(t.Context(), "select from idempotency")
	require.NoError(t, err)
	reindexed := inBackground(func() error {
		_, err := pool.Exec(t.Context(), "reindex index concurrently idempotency_pkey")
		return err
	})
	until(t, "the new index is in place, and waits for who knows the old one", func() bool {
		return queryRow[bool](t, pool, "select exists (select from pg_class where relname = 'idempotency_pkey_ccold')")
	})
	first, err = s.OnceFunc(t.Context(), request, neverCalled)
	require.NoError(t, err)
	require.False(t, first)
	batch := new(pgx.Batch)
	require.NoError(t, request.Queue(batch))
	batch.Queue("insert into effect values ('again')")
	require.ErrorIs(t, request.BatchError(pool.SendBatch(t.Context(), batch).Close()), pgstore.ErrDuplicate)
	require.NoError(t, older.Rollback(t.Context()))
	require.NoError(t, <-reindexed)
}
