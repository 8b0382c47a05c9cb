package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One turn in which the machine was fast makes no number the best.
func TestBestOf(t *testing.T) {
	t.Parallel()
	rates := map[int][]int{8: {10, 10, 10}, 16: {29, 1, 1}, 32: {9, 12, 12}}
	var tried []int
	best, err := bestOf([]int{8, 16, 32}, 3, func(n int) (work, error) {
		tried = append(tried, n)
		return work{operations: rates[n][(len(tried)-1)/3], took: time.Second}, nil
	})
	require.NoError(t, err)
	require.Equal(t, 32, best)
	require.Equal(t, []int{8, 16, 32, 8, 16, 32, 8, 16, 32}, tried)

	_, err = bestOf([]int{8, 16}, 3, func(int) (work, error) { return work{}, errBroken })
	require.ErrorIs(t, err, errBroken)
	best, err = bestOf([]int{8}, 3, nil)
	require.NoError(t, err)
	require.Equal(t, 8, best, "there is no choice")
}

// A competitor that does more with a connection for each caller gets them, and one that
// does less does not.
func TestAtItsBest(t *testing.T) {
	t.Parallel()
	searching := mini
	searching.connections = []int{1, 4}
	for _, tt := range []struct {
		name   string
		effort effort
		rates  map[int]int // by number of connections
		want   int
	}{
		{"more is better", searching, map[int]int{32: 10, 64: 15}, 64},
		{"fewer is better", searching, map[int]int{32: 15, 64: 10}, 32},
		{"nobody looks", mini, nil, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			open := 0
			v, err := atItsBest(t.Context(), tt.effort, 64, func(n int) (*variant, error) {
				open++
				return &variant{
					name: "v", connections: n,
					turn: func(_ context.Context, length time.Duration) (work, error) {
						return work{operations: tt.rates[n], took: length}, nil
					},
					close: func() error { open--; return nil },
				}, nil
			})
			require.NoError(t, err)
			require.Equal(t, tt.want, v.connections)
			require.Equal(t, 1, open, "those that were tried are closed")
		})
	}
	for _, e := range []effort{searching, mini} {
		_, err := atItsBest(t.Context(), e, 64, func(int) (*variant, error) { return nil, errBroken })
		require.ErrorIs(t, err, errBroken)
	}
}

// An article may open as many connections as it is given, for as many callers.
func TestArticleVariant_connections(t *testing.T) {
	t.Parallel()
	on := newPostgres(t)
	e := mini
	e.slice *= 5 // all of them get to call
	v, err := articleVariant(t.Context(), e, on, articleAdvisoryLock, 64)
	require.NoError(t, err)
	require.Equal(t, 64, v.connections)
	w, err := v.turn(t.Context(), e.slice)
	require.NoError(t, err)
	var sessions int
	require.NoError(t, on.look.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname like 'variant%'").Scan(&sessions))
	require.Greater(t, sessions, connections+2, "who counts has two")
	require.NoError(t, v.check(t.Context(), w.operations))
	require.NoError(t, v.close())
}
