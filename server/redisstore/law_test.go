package redisstore_test

import (
	"testing"

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

func TestRoutes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	servertest.TestRoutes(t, func(tb testing.TB) store.Store { return open(tb, redisstore.Config{KeepRoutes: true}, server.Addr()) })
}

func TestReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		s := open(tb, redisstore.Config{}, server.Addr())
		return servertest.ReaderSetup{Store: s, Reader: s.Reader(), Generic: true}
	})
}
