package pgkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func puts(n int) []put {
	all := make([]put, n)
	for i := range all {
		all[i] = put{id: n - i, value: i} // not in the order of their ids
	}
	return all
}

func TestCombiner_lone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, pgkit.CombinerConfig{})
	value, ok, err := b.puts.Do(t.Context(), put{1, 21})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 42, value)
	value, ok, err = b.puts.Do(t.Context(), put{1, 22})
	require.NoError(t, err)
	require.False(t, ok, "it is there already")
	require.Zero(t, value)
	require.Equal(t, "alone", queryRow[string](t, b.look, "select sent from t"), "no need for a statement for many")
}

// Everything that waits goes in one transaction, and each caller gets its own
// answer, also where the default isolation level needs a block around it.
func TestCombiner_sharesACommit(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{}, session("default_transaction_isolation", level))
			exec(t, b.look, "insert into t values (7, 0, 'before')")
			release := b.hold(t)
			done := b.queue(t.Context(), t, puts(20)...)
			marked := make(chan bool, 1)
			go func() {
				ok, _, err := b.marks.Do(t.Context(), 3) // a row of the same flush: marks follow puts
				marked <- ok && err == nil
			}()
			until(t, "it waits", func() bool { return b.combiner.Queued() == 20 })
			release()
			for i, p := range puts(20) {
				got := <-done[i]
				require.NoError(t, got.err)
				require.Equal(t, p.id != 7, got.ok, "id %d", p.id)
				if got.ok && got.value != 2*p.value {
					t.Errorf("answer to %+v = %d, want %d", p, got.value, 2*p.value)
				}
			}
			require.True(t, <-marked)
			puts, commits := b.count(t)
			require.Equal(t, 20, puts)
			require.Equal(t, 2, commits, "one is of the row that was there before")
			require.Equal(t, 19, queryRow[int](t, b.look, "select count(*) from t where sent = 'together, read committed'"))
		})
	}
}

// Many writes, or large writes, go in several flushes.
func TestCombiner_splits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		writes, bytes  int
		flushes, atEnd int // and how many are in the last
	}{{"many", 300, 1, 2, 44}, {"large", 5, 500_000, 3, 1}, {"too large", 3, 5_000_000, 3, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{})
			release := b.hold(t)
			var done []<-chan given
			for id := range tt.writes {
				done = append(done, b.put(t.Context(), put{id, tt.bytes}))
			}
			until(t, "all wait", func() bool { return b.combiner.Queued() == tt.writes-1 })
			release()
			for _, d := range done {
				require.NoError(t, (<-d).err)
			}
			_, commits := b.count(t)
			require.Equal(t, tt.flushes, commits)
			require.Equal(t, tt.atEnd, queryRow[int](t, b.look, "select min(n) from (select count(*) as n from t group by xmin::text) flush"))
		})
	}
}

// One bad entry never fails its neighbours, wherever it is found to be bad.
func TestCombiner_badEntry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		bad  put
		want pgkit.Failure
	}{
		{"the server refuses it", put{100, -1}, pgkit.FailureRefused},
		{"it cannot be encoded", put{1 << 40, 1}, pgkit.FailureLost}, // no error of pgx's says that it sent nothing
	} {
		for _, leads := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, 1, pgkit.CombinerConfig{})
				_, _, err := b.puts.Do(t.Context(), put{1000, 0}) // opens the connection
				require.NoError(t, err)
				release := b.hold(t)
				all := append(puts(9), tt.bad)
				if leads {
					all[0], all[9] = all[9], all[0]
				}
				done := b.queue(t.Context(), t, all...)
				release()
				for i, p := range all {
					got := <-done[i]
					if p == tt.bad {
						require.Error(t, got.err)
						require.Equal(t, tt.want, pgkit.Classify(got.err), "error %v", got.err)
						continue
					}
					require.NoError(t, got.err, "neighbour %+v", p)
					require.True(t, got.ok)
				}
				n := queryRow[int](t, b.look, "select count(*) from t where sent = 'alone'")
				require.Equal(t, 10, n, "the flush left nothing, and each was sent again by itself")
			})
		}
	}
}

// The fate of a flush is that of each of its writes.
func TestCombiner_connectionKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, pgkit.CombinerConfig{MaxFlushes: 1})
	b.block(t, 1)
	release := b.hold(t)
	done := b.queue(t.Context(), t, puts(9)...)
	release()
	exec(t, b.look, "select pg_terminate_backend($1)", b.blocked(t))
	for _, d := range done {
		require.ErrorIs(t, (<-d).err, pgkit.ErrFateUnknown)
	}
	puts, _ := b.count(t)
	require.Zero(t, puts)
	_, ok, err := b.puts.Do(t.Context(), put{2, 0})
	require.NoError(t, err, "on a new connection")
	require.True(t, ok)
}

// No connection is to be had: nothing was sent.
func TestCombiner_noConnection(t *testing.T) {
	t.Parallel()
	down := errors.New("server is down")
	goOn := make(chan struct{})
	b := newBench(t, 1, pgkit.CombinerConfig{}, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			<-goOn
			return down
		}
	})
	done := b.queue(t.Context(), t, puts(9)...)
	close(goOn)
	for _, d := range done {
		err := (<-d).err
		require.ErrorIs(t, err, down)
		require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
	}
}

func TestCombiner_queueFull(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{MaxQueued: 5})
	release := b.hold(t)
	done := b.queue(t.Context(), t, puts(6)...)
	_, _, err := b.puts.Do(t.Context(), put{100, 0})
	require.ErrorIs(t, err, pgkit.ErrQueueFull)
	require.Equal(t, pgkit.FailureNotSent, pgkit.Classify(err))
	release()
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
	_, ok, err := b.puts.Do(t.Context(), put{100, 0})
	require.NoError(t, err)
	require.True(t, ok)
}

// What is finished is recorded however much new work waits: it is admitted to a full queue, and goes first.
func TestCombiner_finishedWorkGoesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{MaxQueued: 2})
	ends := pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[int, bool]{
		Finishes: true,
		One: func(id int) pgkit.Statement {
			return pgkit.Statement{SQL: "update t set marked = true where id = $1 returning true", Args: []any{id}}
		},
		ScanOne: pgx.RowTo[bool],
		Many: func(ids []int) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
			st := pgkit.Statement{SQL: "update t set marked = true where id = any ($1) returning id", Args: []any{ids}}
			return st, func(row pgx.CollectableRow) (int, bool, error) {
				var id int
				err := row.Scan(&id)
				return slices.Index(ids, id), true, err
			}
		},
	})
	exec(t, b.look, "insert into t values (50, 0), (51, 0)")
	release := b.hold(t)
	const half = 1<<19 + 1 // of what fits into a flush
	done := b.queue(t.Context(), t, put{1, 0}, put{2, half}, put{3, half})
	_, _, err := b.puts.Do(t.Context(), put{4, 0})
	require.ErrorIs(t, err, pgkit.ErrQueueFull)
	var ended []<-chan error
	for i, id := range []int{50, 51} {
		end := make(chan error, 1)
		ended = append(ended, end)
		go func() {
			_, _, err := ends.Do(t.Context(), id)
			end <- err
		}()
		until(t, "it is admitted", func() bool { return b.combiner.Queued() == 3+i })
	}
	release()
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
	for _, end := range ended {
		require.NoError(t, <-end)
	}
	flushes := queryRow[string](t, b.look, "select string_agg((xmin = (select xmin from t where id = 1))::text, ' ' order by id) from t")
	require.Equal(t, "true true false true true", flushes, "in the first flush, by row")
}

// A flush that waits does not make others wait that have nothing to do with it.
func TestCombiner_stall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                string
		leaves, cannotLeave bool
	}{
		{"its leader waits", false, false},
		{"its leader has left", true, false},
		{"its leader writes by itself", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 4, pgkit.CombinerConfig{MaxFlushes: 2})
			release := b.block(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cannotLeave {
				ctx = context.WithoutCancel(ctx)
			}
			stalled := b.put(ctx, put{1, 0})
			b.blocked(t)
			if tt.leaves {
				cancel()
				require.ErrorIs(t, (<-stalled).err, pgkit.ErrFateUnknown)
			}
			for id := range 10 { // one after the other: they never are enough for a further flush
				_, ok, err := b.puts.Do(t.Context(), put{id + 2, 0})
				require.NoError(t, err)
				require.True(t, ok)
			}
			release()
			if !tt.leaves {
				require.NoError(t, (<-stalled).err)
			}
			until(t, "it is done", func() bool { n, _ := b.count(t); return n == 11 })
		})
	}
}

// However many flushes wait, for whatever reason, they take no more connections than they may.
// Stalled flushes count, and so do flushes whose callers have all left.
func TestCombiner_maximum(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8, pgkit.CombinerConfig{MaxFlushes: 2})
	release := b.block(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	stalled := []<-chan given{b.put(t.Context(), put{1, 0})}
	b.blocked(t)
	stalled = append(stalled, b.put(ctx, put{1, 0}))
	until(t, "both have stalled", func() bool { return b.combiner.Stalled() == 2 })
	var waiting []<-chan given
	for id := range 50 {
		waiting = append(waiting, b.put(t.Context(), put{id + 2, 0}))
	}
	until(t, "the others wait", func() bool { return b.combiner.Queued() == 50 })
	cancel()
	require.ErrorIs(t, (<-stalled[1]).err, pgkit.ErrFateUnknown)
	require.EqualValues(t, 2, b.pool.Stat().AcquiredConns())
	require.Equal(t, 50, b.combiner.Queued())
	release()
	require.NoError(t, (<-stalled[0]).err)
	for _, d := range waiting {
		require.NoError(t, (<-d).err)
	}
	until(t, "nothing is under way", b.combiner.Idle)
}

func TestNewCombiner_refuses(t *testing.T) {
	t.Parallel()
	w := newWriter(t, newPool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 3 }), 0)
	for _, tt := range []struct {
		cfg  pgkit.CombinerConfig
		text string
	}{
		{pgkit.CombinerConfig{MaxFlushes: -1}, "MaxFlushes -1"},
		{pgkit.CombinerConfig{MaxFlushes: 4}, "MaxFlushes 4 is not between 0 and 2, which leaves others one of the pool's 3 connections"},
		{pgkit.CombinerConfig{MaxQueued: -1}, "MaxQueued -1"},
	} {
		_, err := pgkit.NewCombiner(w, tt.cfg)
		require.ErrorContains(t, err, tt.text)
	}
}
