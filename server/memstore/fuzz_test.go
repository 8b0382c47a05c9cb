package memstore_test

import (
	"testing"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/servertest"
)

func FuzzStore(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		servertest.CheckModel(t, memstore.New(), seed, 500)
	})
}
