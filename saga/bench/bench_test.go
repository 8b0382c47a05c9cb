package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSaga is B2 for one caller under go test: one contender after the
// other, so that its times are worth less than those of the rounds.
func BenchmarkSaga(b *testing.B) {
	c := startTestCluster(b, nil)
	for _, contender := range contenders {
		b.Run(contender.name, func(b *testing.B) {
			e, err := contender.start(b.Context(), c)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if err := runOnce(b.Context(), e, 1); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, end(b.Context(), e))
		})
	}
}
