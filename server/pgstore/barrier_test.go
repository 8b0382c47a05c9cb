package pgstore_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A releaseRequest is an undo and the key of the call that it undoes.
type releaseRequest struct {
	pgstore.OnceRequest
	forward childkey.Key
}

func release(tb testing.TB, forward, undo string) releaseRequest {
	tb.Helper()
	return releaseRequest{pgstore.OnceRequest{Scope: "tenant", Name: "release", Key: keyOf(tb, undo)}, keyOf(tb, forward)}
}

// take undoes in a transaction of its own, which rolls back with an error.
func take(ctx context.Context, pool *pgxpool.Pool, req releaseRequest) (fate server.Fate, first bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if fate, first, err = pgstore.Barrier(ctx, tx, req.forward, req.OnceRequest); err != nil || !first || fate == server.NeverRan {
			return err
		}
		_, err = tx.Exec(ctx, "insert into effect values ('undo of ' || $1)", req.forward.String())
		return err
	})
	return fate, first, err
}

// forwards is a guard over the same tables. It leaves keys with every kind of outcome.
func forwards(t *testing.T) (*server.Guard, *pgxpool.Pool) {
	t.Helper()
	return forwardsOn(t, ledger(t))
}

func forwardsOn(t *testing.T, pool *pgxpool.Pool) (*server.Guard, *pgxpool.Pool) {
	t.Helper()
	g, err := server.NewGuard(openOn(t, pool, pgstore.Config{}), server.Unscoped, server.Config{})
	require.NoError(t, err)
	for key, run := range map[string]struct {
		effect server.Effect
		err    error
	}{
		"ran":      {server.Transactional, nil},
		"declined": {server.Transactional, &server.StatusError{Status: 402}},
		"rolled":   {server.Transactional, errors.New("failed")},
		"keyed":    {server.Keyed, errors.New("failed")},
		"opaque":   {server.Opaque, errors.New("failed")},
	} {
		_, err := do(t, g, run.effect, key, func(context.Context) (int, error) { return 0, run.err })
		require.ErrorIs(t, err, run.err)
	}
	return g, pool
}

func TestBarrier(t *testing.T) {
	t.Parallel()
	testBarrier(t, ledger(t))
}

func testBarrier(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	g, pool := forwardsOn(t, pool)
	for _, tt := range []struct {
		forward string
		want    server.Fate
		late    wire.Code // what a late forward call gets; "" a replay
	}{
		{"ran", server.Ran, ""},
		{"declined", server.NeverRan, ""},
		{"rolled", server.NeverRan, wire.KeyCancelled},
		{"keyed", server.MaybeRan, wire.KeyCancelled},
		{"opaque", server.MaybeRan, wire.KeyCancelled},
		{"never-came", server.NeverRan, wire.KeyCancelled},
	} {
		fate, first, err := take(t.Context(), pool, release(t, tt.forward, "undo-"+tt.forward))
		require.NoError(t, err, tt.forward)
		require.True(t, first)
		require.Equal(t, tt.want, fate, tt.forward)
		fate, first, err = take(t.Context(), pool, release(t, tt.forward, "undo-"+tt.forward))
		require.NoError(t, err, tt.forward)
		require.False(t, first, "the second delivery of an undo")
		require.Zero(t, fate)
		if tt.late != "" {
			_, err = do(t, g, server.Transactional, tt.forward, func(context.Context) (int, error) {
				t.Error("a late forward call ran")
				return 0, nil
			})
			require.ErrorIs(t, err, &server.RefusedError{Code: tt.late}, tt.forward)
		}
	}
	require.Equal(t, 3, queryRow[int](t, pool, "select count(*) from effect"), "ran, and twice perhaps")
}

// A refused undo rolls its rows back, and keeps the tombstone of the forward call.
func TestBarrier_refusedUndo(t *testing.T) {
	t.Parallel()
	g, pool := forwards(t)
	refused := &server.StatusError{Status: http.StatusUnprocessableEntity, Code: "shipped"}
	for _, forward := range []string{"never-came", "rolled", "opaque", "ran"} {
		task := server.Task{Name: "undo", Scope: "tenant", Effect: server.Transactional, Cancels: childkey.MustParse(forward)}
		for range 2 {
			_, _, err := server.Do(t.Context(), g, task, childkey.MustParse("undo-"+forward), 0, func(ctx context.Context, _ int) (int, error) {
				_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect values ('refused undo')")
				require.NoError(t, err)
				_, err = server.Barrier(ctx)
				require.NoError(t, err)
				return 0, refused
			})
			require.ErrorContains(t, err, "shipped")
		}
		_, err := do(t, g, server.Transactional, forward, func(context.Context) (int, error) {
			t.Error("a late forward call ran")
			return 0, nil
		})
		if forward == "ran" { // as long as it is not undone, its answer stands
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyCancelled}, forward)
	}
	require.Zero(t, queryRow[int](t, pool, "select count(*) from effect where what = 'refused undo'"))
}

// An undo that rolls back leaves nothing: neither tombstone nor key.
func TestBarrier_rollsBack(t *testing.T) {
	t.Parallel()
	g, pool := forwards(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	undo := release(t, "late", "undo")
	fate, _, err := pgstore.Barrier(t.Context(), tx, undo.forward, undo.OnceRequest)
	require.NoError(t, err)
	require.Equal(t, server.NeverRan, fate)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = do(t, g, server.Transactional, "late", func(context.Context) (int, error) { return 0, nil })
	require.NoError(t, err)
	fate, first, err := take(t.Context(), pool, release(t, "late", "undo"))
	require.NoError(t, err)
	require.True(t, first)
	require.Equal(t, server.Ran, fate)
}

func TestBarrier_whileTheForwardCallRuns(t *testing.T) {
	t.Parallel()
	g, pool := forwards(t)
	runs, ends := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := do(t, g, server.Transactional, "slow", func(context.Context) (int, error) {
			close(runs)
			<-ends
			return 0, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-runs
	_, _, err := take(t.Context(), pool, release(t, "slow", "undo"))
	require.ErrorIs(t, err, server.ErrForwardInProgress)
	close(ends)
	wg.Wait()
	fate, first, err := take(t.Context(), pool, release(t, "slow", "undo"))
	require.NoError(t, err)
	require.True(t, first)
	require.Equal(t, server.Ran, fate)
}

// Forward calls and undos of many keys run at once. Every effect is undone
// once. If an undo finds no effect, none follows.
func TestBarrier_races(t *testing.T) {
	t.Parallel()
	g, pool := forwards(t)
	var ran, undone, never atomic.Int32
	for n := range 20 {
		key := "race-" + string(rune('a'+n))
		var wg sync.WaitGroup
		var forward atomic.Bool
		for range 4 {
			wg.Go(func() {
				_, err := do(t, g, server.Transactional, key, func(context.Context) (int, error) { return 0, nil })
				if err == nil {
					forward.Store(true)
				}
			})
			wg.Go(func() {
				for {
					fate, first, err := take(t.Context(), pool, release(t, key, "undo-"+key))
					switch {
					case errors.Is(err, server.ErrForwardInProgress):
						continue
					case err != nil:
						t.Error(err)
					case first && fate == server.Ran:
						undone.Add(1)
					case first:
						never.Add(1)
					}
					return
				}
			})
		}
		wg.Wait()
		if forward.Load() {
			ran.Add(1)
		}
	}
	require.Equal(t, ran.Load(), undone.Load())
	require.EqualValues(t, 20, undone.Load()+never.Load())
}

func TestBarrier_badInput(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	for _, tt := range []struct {
		name   string
		change func(*releaseRequest)
	}{
		{"no forward key", func(r *releaseRequest) { r.forward = childkey.Key{} }},
		{"no undo key", func(r *releaseRequest) { r.Key = childkey.Key{} }},
		{"the same key", func(r *releaseRequest) { r.Key = r.forward }},
		{"no name", func(r *releaseRequest) { r.Name = "" }},
		{"no scope", func(r *releaseRequest) { r.Scope = "" }},
		{"negative", func(r *releaseRequest) { r.Keep = -time.Second }},
		{"schema", func(r *releaseRequest) { r.Schema = "X" }},
	} {
		req := release(t, "f", "u")
		tt.change(&req)
		_, _, err := take(t.Context(), pool, req)
		require.ErrorIs(t, err, pgstore.ErrArgument, tt.name)
	}
	undo := release(t, "f", "u")
	_, _, err := pgstore.Barrier(t.Context(), nil, undo.forward, undo.OnceRequest)
	require.ErrorIs(t, err, pgstore.ErrArgument)
	require.Zero(t, queryRow[int](t, pool, "select count(*) from idempotency"))
}
