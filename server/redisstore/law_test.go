package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

func TestStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	servertest.TestStore(t, func(tb testing.TB) store.Store { return open(tb, redisstore.Config{}, server.Addr()) })
}

// An operations page reads this store by the methods that every store has.
func TestReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		s := open(tb, redisstore.Config{}, server.Addr())
		r, err := store.ReaderOf(s)
		require.NoError(tb, err)
		return servertest.ReaderSetup{Store: s, Reader: r, Generic: true}
	})
}
