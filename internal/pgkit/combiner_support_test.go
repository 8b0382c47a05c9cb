package pgkit_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A put is a write that tests combine: a row of t, unless t has a row with this id. Its answer is
// twice its value. The server refuses a negative value. The value crashes makes the code that
// builds a statement for several writes panic. The answer to the value strange is a row that cannot
// be read.
type put struct{ id, value int }

const (
	crashes = 1000
	strange = 1001
)

// bench is a table with a combiner on it.
type bench struct {
	pool     *pgxpool.Pool
	writer   *pgkit.Writer
	combiner *pgkit.Combiner
	puts     *pgkit.BatchKind[put, int]
	marks    *pgkit.BatchKind[int, bool] // marks a row of t
	acquires acquires
	look     *pgxpool.Pool // an independent one
}

// newBench has so many connections, not counting those that look.
func newBench(tb testing.TB, conns int32, cfg pgkit.CombinerConfig, changes ...func(*pgxpool.Config)) *bench {
	tb.Helper()
	look := newPool(tb)
	exec(tb, look, "create table t (id int primary key, value int check (value >= 0), sent text, marked bool)")
	b := &bench{look: look}
	b.pool = newPoolAt(tb, look.Config().ConnString(), append(changes, func(cfg *pgxpool.Config) {
		cfg.MaxConns = conns
		if cfg.ConnConfig.Tracer == nil {
			cfg.ConnConfig.Tracer = &b.acquires
		}
	})...)
	b.writer = newWriter(tb, b.pool, 0)
	var err error
	b.combiner, err = pgkit.NewCombiner(b.writer, cfg)
	require.NoError(tb, err)
	b.puts = pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[put, int]{
		One: func(p put) pgkit.Statement {
			return pgkit.Statement{
				SQL:  "insert into t values ($1, $2, 'alone') on conflict do nothing returning 2 * value",
				Args: []any{p.id, p.value},
			}
		},
		ScanOne: pgx.RowTo[int],
		Many:    putMany,
		Bytes:   func(p put) int { return p.value },
	})
	b.marks = pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[int, bool]{
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
	return b
}

func putMany(puts []put) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
	ids, values := make([]int, len(puts)), make([]int, len(puts))
	column := "2 * value"
	for i, p := range puts {
		ids[i], values[i] = p.id, p.value
		switch p.value {
		case crashes:
			panic("no statement for this")
		case strange:
			column = "'not a number'"
		}
	}
	st := pgkit.Statement{
		SQL: "insert into t select id, value, 'together, ' || current_setting('transaction_isolation') from unnest($1::int[], $2::int[]) as p (id, value) order by id " +
			"on conflict do nothing returning id, " + column,
		Args: []any{ids, values},
	}
	return st, func(row pgx.CollectableRow) (int, int, error) {
		var id, answer int
		err := row.Scan(&id, &answer)
		return slices.Index(ids, id), answer, err
	}
}

// given is the result that a caller got.
type given struct {
	value int
	ok    bool
	err   error
}

// put sends p in a goroutine of its own.
func (b *bench) put(ctx context.Context, p put) <-chan given {
	done := make(chan given, 1)
	go func() {
		value, ok, err := b.puts.Do(ctx, p)
		done <- given{value, ok, err}
	}()
	return done
}

// hold takes all connections, so that every write has to wait for release.
func (b *bench) hold(tb testing.TB) (release func()) {
	tb.Helper()
	var held []*pgxpool.Conn
	for range b.pool.Config().MaxConns {
		conn, err := b.pool.Acquire(tb.Context())
		require.NoError(tb, err)
		held = append(held, conn)
	}
	release = func() {
		for _, conn := range held {
			conn.Release()
		}
		held = nil
	}
	tb.Cleanup(release)
	return release
}

// queue makes a flush: its leader, who waits for a connection, and those behind
// it in their order. Everything else must be still.
func (b *bench) queue(ctx context.Context, tb testing.TB, puts ...put) []<-chan given {
	tb.Helper()
	done := make([]<-chan given, len(puts))
	leaders := b.acquires.Load()
	for i, p := range puts {
		done[i] = b.put(ctx, p)
		until(tb, "it waits", func() bool { return b.acquires.Load() == leaders+1 && b.combiner.Queued() == i })
	}
	return done
}

// acquires counts how often a connection was asked for.
type acquires struct{ atomic.Int64 }

func (a *acquires) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	a.Add(1)
	return ctx
}

func (a *acquires) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

func (a *acquires) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (a *acquires) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// count returns how many puts have arrived, and in how many transactions.
func (b *bench) count(tb testing.TB) (puts, commits int) {
	tb.Helper()
	row := b.look.QueryRow(tb.Context(), "select count(*), count(distinct xmin::text) from t")
	require.NoError(tb, row.Scan(&puts, &commits))
	return puts, commits
}

// block holds a row that is not committed: a put with this id has to wait.
func (b *bench) block(tb testing.TB, id int) (release func()) {
	tb.Helper()
	tx, err := b.look.Begin(tb.Context())
	require.NoError(tb, err)
	_, err = tx.Exec(tb.Context(), "insert into t values ($1, 0)", id)
	require.NoError(tb, err)
	release = func() { _ = tx.Rollback(context.Background()) }
	tb.Cleanup(release)
	return release
}

// blocked waits until a flush has to wait for a row, and returns its backend.
func (b *bench) blocked(tb testing.TB) (pid int) {
	tb.Helper()
	until(tb, "a flush waits for a row", func() bool { return waiting(tb, b.look) })
	return queryRow[int](tb, b.look, "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
}
