package pgkit_test

import (
	"crypto/rand"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// The hash is the server's, or no key would be found where it is.
func TestPlacement_hash(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for range 100 {
		var key [16]byte
		_, _ = rand.Read(key[:])
		var want int32
		require.NoError(t, pool.QueryRow(t.Context(), "select uuid_hash($1::uuid)", key).Scan(&want))
		require.Equal(t, want, pgkit.HashUUID(key), key)
	}
}

func TestPlacement_of(t *testing.T) {
	t.Parallel()
	p := new(pgkit.Placement)
	key := [16]byte{1, 2, 3}
	require.Zero(t, p.Of(key), "nothing is known yet")
	hash := pgkit.HashUUID(key)
	for _, tt := range []struct {
		lasts []int32
		want  int
	}{
		{[]int32{math.MaxInt32}, 1},
		{[]int32{hash - 1, hash, math.MaxInt32}, 2},
		{[]int32{hash - 2, hash - 1, hash + 1, math.MaxInt32}, 3},
		{[]int32{hash, math.MaxInt32}, 1},
		{[]int32{hash - 1}, 0}, // it was read in the middle of a split
		{nil, 0},
	} {
		p.Set(tt.lasts...)
		require.Equal(t, pgkit.Place{Node: tt.want, Shard: tt.want}, p.Of(key), tt.lasts)
	}
}
