package pgtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// BenchmarkStart measures the start that the first test of a binary waits for, and the stop.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		cluster, err := pgtest.Start(b.Context(), pgtest.Config{Private: true})
		require.NoError(b, err)
		require.NoError(b, cluster.Stop())
	}
}

// BenchmarkURL measures the wait of every test: for a database of its own.
func BenchmarkURL(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		pgtest.URL(b) // dropped at the end, outside the measured time
	}
}

// BenchmarkNewPool measures the same with a copy of a migrated template and the first query.
func BenchmarkNewPool(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, pgtest.NewPool(b, migrate).Ping(b.Context()))
	}
}
