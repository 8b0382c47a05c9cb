package childkey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/fanonce/fanonce/childkey"
)

// formula is what a hand-written caller does: it is ambiguous, and the price to
// compare with.
func formula(parent, service string) string {
	sum := sha256.Sum256([]byte(parent + ":" + service))
	return hex.EncodeToString(sum[:])[:32]
}

var benchParent = childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")

func BenchmarkDerive(b *testing.B) {
	b.Run("formula", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = formula(benchParent.String(), "payment:charge")
		}
	})
	b.Run("Derive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = childkey.Derive(benchParent, "payment", "charge")
		}
	})
	b.Run("Derive with discriminators", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = childkey.Derive(benchParent, "payment", "charge", "order-42", "line-7")
		}
	})
	b.Run("Keyed", func(b *testing.B) {
		b.ReportAllocs()
		keyed, err := childkey.NewKeyed("k1", make([]byte, 32))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			_, _ = keyed.Derive(benchParent, "payment", "charge")
		}
	})
	b.Run("Derive in parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = childkey.Derive(benchParent, "payment", "charge")
			}
		})
	})
}
