package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// canned is a variant that does a number of operations in each turn, in no time.
func canned(name string, operations int, turns *[]string) *variant {
	return &variant{
		name: name,
		turn: func(_ context.Context, length time.Duration) (work, error) {
			*turns = append(*turns, name)
			return work{operations: operations, took: length, waits: []time.Duration{length}}, nil
		},
		check: func(context.Context, int) error { return nil },
		close: func() error { *turns = append(*turns, "close "+name); return nil },
	}
}

func TestContest(t *testing.T) {
	t.Parallel()
	var turns []string
	total := 0
	a, b := canned("a", 10, &turns), canned("b", 5, &turns)
	a.check = func(_ context.Context, operations int) error { total = operations; return nil }
	e := effort{rounds: 2, slices: 3, slice: time.Second}
	r, err := contest(t.Context(), e, a, b)
	require.NoError(t, err)
	require.Equal(t, "ab ba ab ba ab ba ab", pairs(turns[:14]))
	require.Equal(t, []string{"close a", "close b"}, turns[14:])
	require.Equal(t, 70, total, "the round that warms up counts too: its rows are there")
	require.Len(t, r["a"], 2)
	require.Equal(t, spread{Median: 10, Low: 10, High: 10}, r.spread("a", (*cell).rate))
	require.Equal(t, spread{Median: 2, Low: 2, High: 2}, r.ratio("a", "b", (*cell).rate))
	require.Equal(t, 30, r["a"][0].operations)
	require.Len(t, r["a"][0].waits, 3)
}

func pairs(turns []string) string {
	var b strings.Builder
	for i, name := range turns {
		if i > 0 && i%2 == 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name)
	}
	return b.String()
}

var errBroken = errors.New("broken")

func TestContest_failures(t *testing.T) {
	t.Parallel()
	e := effort{rounds: 1, slices: 1, slice: time.Second}
	tests := []struct {
		name  string
		spoil func(*variant)
		want  string
	}{
		{"a turn fails", func(v *variant) {
			v.turn = func(context.Context, time.Duration) (work, error) { return work{}, errBroken }
		}, "b: broken"},
		{"a turn does nothing", func(v *variant) {
			v.turn = func(context.Context, time.Duration) (work, error) { return work{}, nil }
		}, "b: it did nothing"},
		{"rows do not match", func(v *variant) { v.check = func(context.Context, int) error { return errBroken } }, "b: broken"},
		{"it cannot be closed", func(v *variant) { v.close = func() error { return errBroken } }, "broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var turns []string
			a, b := canned("a", 1, &turns), canned("b", 1, &turns)
			tt.spoil(b)
			_, err := contest(t.Context(), e, a, b)
			require.ErrorContains(t, err, tt.want)
			require.Contains(t, turns, "close a")
		})
	}
}

// The cost of counting a variant's operations is not charged to it. The test is not parallel,
// because it looks at the resources that this process uses.
func TestTakeTurn_tally(t *testing.T) {
	on := newPostgres(t)
	db := openDatabase(t, on, someTable)
	const bytes = 1 << 20
	writeLog := script(fmt.Sprintf("select pg_logical_emit_message(false, 'tally', repeat('x', %d))", bytes))
	tallies := []int{0, 7} // it was not yet done with anything in the first slice
	v := &variant{
		name: "v", server: on,
		turn: func(_ context.Context, length time.Duration) (work, error) { return work{took: length}, nil },
		tally: func(ctx context.Context) (n int, err error) {
			n, tallies = tallies[0], tallies[1:]
			before, err := selfTime()
			for used := before; err == nil && used-before < time.Second; {
				used, err = selfTime()
			}
			return n, errors.Join(err, writeLog(ctx, db.look))
		},
	}
	c := new(cell)
	n, err := takeTurn(t.Context(), v, time.Millisecond, c)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Equal(t, 7, c.operations)
	require.Equal(t, 2*time.Millisecond, c.took, "both slices are its own")
	require.Less(t, c.wal, float64(bytes))
	require.Less(t, c.here, 500*time.Millisecond)
	require.Less(t, c.cpu, 500*time.Millisecond)

	v.tally = func(context.Context) (int, error) { return 0, errBroken }
	_, err = takeTurn(t.Context(), v, time.Millisecond, c)
	require.ErrorIs(t, err, errBroken)
}

func TestCallers(t *testing.T) {
	t.Parallel()
	w, err := callers(3, func(context.Context) error { return nil })(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, 3, w.operations, "each of them does one, however late it comes to run")
	require.Len(t, w.waits, w.operations)
	_, err = callers(3, func(context.Context) error { return errBroken })(t.Context(), time.Hour)
	require.ErrorIs(t, err, errBroken)
}

// The steady rate is that of callers who all call, whatever a turn's end adds.
func TestCell_steady(t *testing.T) {
	t.Parallel()
	c := &cell{}
	for range 2 { // turns in which one caller does two operations and the other one
		c.add(work{operations: 3, took: 25 * time.Millisecond, waits: []time.Duration{10e6, 10e6, 20e6}}, usage{}, 0)
	}
	require.InDelta(t, 150, c.steady(2), 1e-9) // 40 ms of calling for three, by two at once
	require.InDelta(t, 120, c.rate(), 1e-9)
}
