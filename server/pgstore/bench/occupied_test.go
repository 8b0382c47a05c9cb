package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The states of connections are told apart, and idle connections are not counted.
func TestOccupied(t *testing.T) {
	t.Parallel()
	on := newPostgres(t)
	db := openDatabase(t, on, someTable)
	pool, err := db.pool(t.Context(), 5)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	turns := 0
	turn := func(ctx context.Context, length time.Duration) (work, error) {
		turns++
		holder, err := pool.Begin(ctx) // waits for its client
		if err != nil {
			return work{}, err
		}
		if _, err := holder.Exec(ctx, "lock table it"); err != nil {
			return work{}, err
		}
		done := make(chan error, 3)
		for range 2 { // wait for the lock
			go func() { _, err := pool.Exec(ctx, "insert into it values (1)"); done <- err }()
		}
		go func() { // runs
			_, err := pool.Exec(ctx, "select count(*) from generate_series(1, 5000000) n where sqrt(n) < 0")
			done <- err
		}()
		time.Sleep(length) // as long as a turn is: the averages are of this
		err = holder.Rollback(ctx)
		return work{operations: 1}, errors.Join(err, <-done, <-done, <-done)
	}
	closed := false
	f, err := measureConnections(t.Context(), effort{slices: 1, slice: 500 * time.Millisecond}, func() (*variant, error) {
		return &variant{name: "v", server: on, turn: turn, close: func() error { closed = true; return nil }}, nil
	})
	require.NoError(t, err)
	require.Equal(t, "… v, what its connections are at", f.Name)
	require.Equal(t, 2, turns, "the first connects")
	require.True(t, closed)
	of := make(map[string]float64)
	for _, m := range f.Measures {
		of[m.Name] = m.Value
	}
	require.Greater(t, of["wait for others"], 0.0)
	require.Greater(t, of["running"], of["flush the log"])
	require.Greater(t, of["wait for the client"], 0.0)
	require.LessOrEqual(t, of["wait for the client"], 1.0)
	require.LessOrEqual(t, of["wait for others"]+of["running"], 3.0, "who runs waits at times too, for its temporary file")
	require.LessOrEqual(t, of["busy"], 4.0, "the fifth is idle, and so is who counts")
}

func TestOccupied_failures(t *testing.T) {
	t.Parallel()
	_, err := measureConnections(t.Context(), mini, func() (*variant, error) { return nil, errBroken })
	require.ErrorIs(t, err, errBroken)
	on := newPostgres(t)
	for turn := 1; turn <= 2; turn++ {
		n := 0
		_, err = measureConnections(t.Context(), mini, func() (*variant, error) {
			return &variant{name: "v", server: on, close: func() error { return nil }, turn: func(context.Context, time.Duration) (work, error) {
				if n++; n == turn {
					return work{}, errBroken
				}
				return work{operations: 1}, nil
			}}, nil
		})
		require.ErrorIs(t, err, errBroken, "in turn %d", turn)
	}
}
