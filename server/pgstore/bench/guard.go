package main

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A guarded is a guard over a store, both of which a caller can look into.
type guarded struct {
	*database

	guard *server.Guard
	store *pgstore.Store
	pool  *pgxpool.Pool // of the store
}

// guardOptions are all the choices that there are. The zero one has the defaults.
type guardOptions struct {
	guard server.Config
	store pgstore.Config
}

// openGuard makes one on a database that has the store's tables.
func openGuard(ctx context.Context, db *database, o guardOptions) (*guarded, error) {
	config, err := db.config(connections)
	if err != nil {
		return nil, err
	}
	pgstore.Prepare(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	store, err := pgstore.New(pool, o.store)
	if err != nil {
		pool.Close()
		return nil, err
	}
	g := &guarded{database: db, store: store, pool: pool}
	if g.guard, err = server.NewGuard(store, server.Unscoped, o.guard); err != nil {
		return nil, errors.Join(err, g.close(ctx))
	}
	return g, nil
}

func (g *guarded) close(ctx context.Context) (err error) {
	if g.guard != nil {
		err = g.guard.Shutdown(context.WithoutCancel(ctx))
	}
	g.store.Close()
	g.pool.Close()
	return err
}

// newKey is one that nobody has used.
func newKey() childkey.Key {
	id := random()
	return childkey.MustParse(hex.EncodeToString(id[:]))
}

// task is one of the same name and scope for all.
func task(effect server.Effect) server.Task {
	return server.Task{Name: "bench", Scope: "bench", Effect: effect}
}
