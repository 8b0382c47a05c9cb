package main

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/server/pgtest"
)

// connections is how many each contender may open.
const connections = 32

// A cluster is a server for one bench alone. It loses no commit that it acknowledged.
type cluster struct {
	server    *pgtest.Cluster
	look      *pgxpool.Pool // to a database that no contender uses
	version   string
	databases int
}

// startCluster starts the server with these settings. End it with stop.
func startCluster(ctx context.Context, settings map[string]string) (*cluster, error) {
	all := map[string]string{
		"shared_buffers": "256MB",
		// A checkpoint amid a round makes its first writes log whole pages.
		"max_wal_size": "8GB", "checkpoint_timeout": "1h",
		"max_connections": strconv.Itoa(connections*len(contenders) + 20),
	}
	maps.Copy(all, settings)
	server, err := pgtest.Start(ctx, pgtest.Config{Durable: true, Settings: all})
	if err != nil {
		return nil, err
	}
	c := &cluster{server: server}
	if c.look, err = pgxpool.New(ctx, server.URL("")); err == nil {
		err = c.look.QueryRow(ctx, "select split_part(current_setting('server_version'), ' ', 1)").Scan(&c.version)
	}
	if err != nil {
		_ = c.stop() // the first error says more
		return nil, err
	}
	return c, nil
}

func (c *cluster) stop() error {
	if c.look != nil {
		c.look.Close()
	}
	return c.server.Stop()
}

// database creates an empty database and returns how to connect to it, with the
// number of connections in it.
func (c *cluster) database(ctx context.Context) (*pgxpool.Config, error) {
	c.databases++
	url, err := c.server.CreateDatabase(ctx, fmt.Sprint("contender_", c.databases))
	if err != nil {
		return nil, err
	}
	return pgxpool.ParseConfig(fmt.Sprint(url, "&pool_max_conns=", connections))
}
