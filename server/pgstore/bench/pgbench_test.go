package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows that nobody counted are few: those of one statement a connection.
func TestPgbench_check(t *testing.T) {
	t.Parallel()
	l := new(lab)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	on, err := l.postgres(t.Context())
	require.NoError(t, err)
	db := openDatabase(t, on)
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
