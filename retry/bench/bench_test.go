package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkOverhead is B1 for go test: one client after the other, so that its
// times are worth less than those of the rounds, and its allocations as much.
func BenchmarkOverhead(b *testing.B) {
	operations, err := overheadOperations(b.Context(), stubTransport{asks: true})
	require.NoError(b, err)
	benchmark(b, operations)
}

// BenchmarkOverheadUnasked is the same over a stub that asks nothing of its context.
func BenchmarkOverheadUnasked(b *testing.B) {
	operations, err := overheadOperations(b.Context(), stubTransport{})
	require.NoError(b, err)
	benchmark(b, operations)
}

// BenchmarkDerive is B2 for go test.
func BenchmarkDerive(b *testing.B) { benchmark(b, deriveOperations()) }

func benchmark(b *testing.B, operations []operation) {
	for _, op := range operations {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := op.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
