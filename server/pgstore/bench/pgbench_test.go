package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows that nobody counted are few: those of one statement a connection.
func TestPgbench_check(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), someTable)
	for _, tt := range []struct {
		file        string
		rows, wrong int
	}{{twoCommits, 4, 5}, {insertAlone, 4, 5}, {oneCommit, 4, 5}, {batches, 4 * 256, 4*256 + 1}} {
		t.Run(tt.file, func(t *testing.T) {
			b := &pgbench{database: db, connections: 4, ahead: rowsOf(tt.file)}
			for rows, want := range map[int]string{-1: "finished", 0: "", tt.rows: "", tt.wrong: "finished"} {
				b.done = "select " + strconv.Itoa(1000+rows)
				err := b.check(t.Context(), 1000)
				if want == "" {
					require.NoError(t, err, "%d more", rows)
				} else {
					require.ErrorContains(t, err, want, "%d more", rows)
				}
			}
		})
	}
}

// A turn ends before its operations are counted, and they are counted whole then.
func TestPgbench_turn(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), migrateStore)
	b, err := startPgbench(t.Context(), db, twoCommits, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.stop()) }()
	v, counting := b.variant(base), b.done
	b.done = "select count(*) from nothing"
	_, err = v.turn(t.Context(), mini.slice)
	require.NoError(t, err, "it does not count")
	_, err = v.tally(t.Context())
	require.Error(t, err)
	b.done = counting
	n, err := takeTurn(t.Context(), v, mini.slice, new(cell))
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, v.check(t.Context(), n), "with those of the turn that was not counted")
}

// The numbers are tried with pgbench itself, one after the other, and the contest has a
// table of its own behind that.
func TestBestConnections(t *testing.T) {
	t.Parallel()
	on := newPostgres(t)
	databases := func() int {
		var n int
		require.NoError(t, on.look.QueryRow(t.Context(), "select count(*) from pg_database where datname like 'variant%'").Scan(&n))
		return n
	}
	e := mini
	e.connections = []int{1, 4}
	best, err := bestConnections(t.Context(), e, on, twoCommits)
	require.NoError(t, err)
	require.Contains(t, e.connections, best)
	require.Zero(t, databases(), "its rows are gone")

	v, err := pgbenchVariant(t.Context(), e, on, base, twoCommits)
	require.NoError(t, err)
	require.Contains(t, e.connections, v.connections)
	require.Equal(t, 1, databases(), "that of the contest")
	require.NoError(t, v.close())
	require.Zero(t, databases())
}
