package pgkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// doubles reads twice a number for each of 1 to 99, of which 13 cannot be read
// together with others. Each statement waits until the test lets it go.
type doubles struct {
	*pgkit.BatchKind[int, int]
	*pgkit.Combiner

	sent chan string // The statements, as they are about to be sent.
	pass chan error  // The fate of each: an error instead of an answer.
}

const (
	one  = "select 2 * n from generate_series(1, 99) n where n = $1"
	many = "select q.i, 2 * q.n, 100 / (q.n - 13) from unnest($1::int[]) with ordinality q (n, i) join generate_series(1, 99) s on s = q.n"
)

func newDoubles(tb testing.TB, cfg pgkit.CombinerConfig) *doubles {
	tb.Helper()
	d := &doubles{sent: make(chan string), pass: make(chan error)}
	pool := newPool(tb, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 2*pgkit.DefaultMaxFlushes, d })
	d.Combiner, d.BatchKind = newReads(tb, pool, cfg)
	tb.Cleanup(func() { require.True(tb, d.Idle(), "somebody's read still counts as under way") })
	return d
}

func newReads(tb testing.TB, pool *pgxpool.Pool, cfg pgkit.CombinerConfig) (*pgkit.Combiner, *pgkit.BatchKind[int, int]) {
	tb.Helper()
	c, err := pgkit.NewReadCombiner(pool, cfg)
	require.NoError(tb, err)
	return c, pgkit.NewBatchKind(c, doubling)
}

var doubling = pgkit.BatchKindConfig[int, int]{
	One:     func(n int) pgkit.Statement { return pgkit.Statement{SQL: one, Args: []any{n}} },
	ScanOne: pgx.RowTo[int],
	Many: func(ns []int) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
		return pgkit.Statement{SQL: many, Args: []any{ns}}, func(row pgx.CollectableRow) (i, answer int, err error) {
			err = row.Scan(&i, &answer, nil)
			return i - 1, answer, err
		}
	},
}

var errPanic = errors.New("panic")

// cancelKey is the key of the function that ends the ctx of a statement.
type cancelKey struct{}

// TraceQueryStart implements [pgx.QueryTracer].
func (d *doubles) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL != one && q.SQL != many {
		return ctx
	}
	d.sent <- fmt.Sprintf("%d%v", strings.Count(q.SQL, "unnest"), q.Args)
	err := <-d.pass
	if errors.Is(err, errPanic) {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err != nil {
		cancel(err) // which fails the statement
	}
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (d *doubles) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc); ok {
		cancel(nil)
	}
}

// A reply is the result of a read.
type reply struct {
	answer   int
	ok       bool
	err      error
	panicked bool
}

// ask reads in the background.
func (d *doubles) ask(ctx context.Context, n int) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		r := reply{panicked: true}
		defer func() {
			_ = recover()
			done <- r
		}()
		r.answer, r.ok, r.err = d.Do(ctx, n)
		r.panicked = false
	}()
	return done
}

// queued reads, one after the other, each once the one before it waits.
func (d *doubles) queued(t *testing.T, ns ...int) (all []<-chan reply) {
	t.Helper()
	for i, n := range ns {
		all = append(all, d.ask(t.Context(), n))
		require.Eventually(t, func() bool { return d.Queued() == i+1 }, time.Minute, time.Millisecond)
	}
	return all
}

func (d *doubles) let(t *testing.T, want string) {
	t.Helper()
	require.Equal(t, want, <-d.sent)
	d.pass <- nil
}

func requireDouble(t *testing.T, n int, done <-chan reply) {
	t.Helper()
	require.Equal(t, reply{answer: 2 * n, ok: true}, <-done)
}

func TestReadCombiner(t *testing.T) {
	t.Parallel()
	d := newDoubles(t, pgkit.CombinerConfig{})
	d.NeverStall()
	first := d.ask(t.Context(), 1)
	require.Equal(t, "0[1]", <-d.sent, "a lone read goes at once, as it is")
	others := d.queued(t, 3, 3, 200)
	d.pass <- nil
	requireDouble(t, 1, first)
	d.let(t, "1[[3 3 200]]")
	for i, n := range []int{3, 3} {
		requireDouble(t, n, others[i])
	}
	require.Equal(t, reply{}, <-others[2], "no row")
}

// Reads that fail together are sent one by one: no caller fails for another.
func TestReadCombiner_takesApart(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("lost"), errPanic} {
		d := newDoubles(t, pgkit.CombinerConfig{})
		d.NeverStall()
		first := d.ask(t.Context(), 1)
		<-d.sent
		numbers := []int{2, 13, 4}
		others := d.queued(t, numbers...)
		d.pass <- nil
		requireDouble(t, 1, first)
		<-d.sent
		d.pass <- failure // nil: the statement fails by itself
		alone := len(numbers)
		if errors.Is(failure, errPanic) {
			alone-- // the leader's tracer, say
		}
		for range alone {
			require.True(t, strings.HasPrefix(<-d.sent, "0"), "failure = %v", failure)
			d.pass <- nil
		}
		for i, done := range others {
			if i == 0 && alone < len(numbers) {
				require.True(t, (<-done).panicked)
			} else {
				requireDouble(t, numbers[i], done)
			}
		}
		last := d.ask(t.Context(), 9)
		d.let(t, "0[9]")
		requireDouble(t, 9, last)
	}
}

// A caller that leaves does not affect the others, whatever stage the read is in.
func TestReadCombiner_callersLeave(t *testing.T) {
	t.Parallel()
	d := newDoubles(t, pgkit.CombinerConfig{})
	d.NeverStall()
	_, _, err := d.Do(canceled(t), 1)
	require.ErrorIs(t, err, context.Canceled, "and nothing is sent")

	first := d.ask(t.Context(), 1)
	<-d.sent
	ctx, leave := context.WithCancel(t.Context())
	leads := d.ask(ctx, 2)
	require.Eventually(t, func() bool { return d.Queued() == 1 }, time.Minute, time.Millisecond)
	left, leaveQueue := context.WithCancel(t.Context())
	quits := d.ask(left, 3)
	require.Eventually(t, func() bool { return d.Queued() == 2 }, time.Minute, time.Millisecond)
	leaveQueue()
	require.ErrorIs(t, (<-quits).err, context.Canceled)
	stays := d.ask(t.Context(), 4)
	require.Eventually(t, func() bool { return d.Queued() == 2 }, time.Minute, time.Millisecond)
	d.pass <- nil
	requireDouble(t, 1, first)
	require.Equal(t, "1[[2 4]]", <-d.sent)
	leave()
	d.pass <- nil // which fails: its leader's ctx has ended
	d.let(t, "0[4]")
	require.ErrorIs(t, (<-leads).err, context.Canceled)
	requireDouble(t, 4, stays)
}

func canceled(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	return ctx
}

// Under -race, and with every number of readers at once.
func TestReadCombiner_manyAtOnce(t *testing.T) {
	t.Parallel()
	c, reads := newReads(t, newPool(t), pgkit.CombinerConfig{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for j := range 10 {
				n := 1 + (i+7*j)%120
				answer, ok, err := reads.Do(t.Context(), n)
				if err != nil || ok != (n < 100) || ok && answer != 2*n {
					t.Errorf("Do(%d) = %d, %v, %v", n, answer, ok, err)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, c.Queued())
}
