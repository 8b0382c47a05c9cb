package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// connections is how many connections each variant may open. Competitors that do more with another
// number have that number: pgbench has its own best one, and articles and Redis may have one for
// each caller.
const connections = 32

// A postgres is a server of ours that keeps the commits that it acknowledges.
type postgres struct {
	cluster   *pgtest.Cluster
	look      *pgxpool.Pool
	version   string
	bin       string // the folder of its programs
	socket    string // the folder of its unix socket
	databases int

	uncounted error // why it cannot count statements; nil: it can
	missed    bool  // a measure was left out for that
}

// startPostgres starts a server from the programs in bin; "" is wherever they
// are. It has so many MB of log that it can use again.
func startPostgres(ctx context.Context, bin string, log int) (*postgres, error) {
	cluster, uncounted, err := startCluster(ctx, bin, statistics)
	if err != nil {
		return nil, err
	}
	p := &postgres{cluster: cluster, uncounted: uncounted}
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	if err := p.age(ctx, log); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// startCluster starts a server with a library that counts statements, or without where
// there is none, which uncounted says then.
func startCluster(ctx context.Context, bin, library string) (_ *pgtest.Cluster, uncounted, err error) {
	settings := map[string]string{
		"shared_buffers":  sharedBuffers(),
		"max_connections": "1000",
		// A checkpoint amid a round makes its first writes log whole pages.
		"max_wal_size": "8GB", "checkpoint_timeout": "1h", "min_wal_size": "4GB",
		"wal_sync_method": "fdatasync",
	}
	counting := maps.Clone(settings)
	maps.Copy(counting, map[string]string{
		"shared_preload_libraries": library,
		statistics + ".track":      "none", "compute_query_id": "off", // but for countedRole
		statistics + ".save": "off",
	})
	cluster, uncounted := pgtest.Start(ctx, pgtest.Config{Durable: true, Bin: bin, Settings: counting})
	if uncounted == nil || !strings.Contains(uncounted.Error(), library) {
		return cluster, nil, uncounted
	}
	cluster, err = pgtest.Start(ctx, pgtest.Config{Durable: true, Bin: bin, Settings: settings})
	return cluster, fmt.Errorf("bench: the server lacks %s, of Postgres' contrib modules: %w", library, uncounted), err
}

// age writes so many MB of log, which a checkpoint then leaves to be used again, as
// on a server that has run for a while. A new one has to make each segment of 16 MB first,
// and for 30 ms all commits wait for that: the more often, the more is written.
func (p *postgres) age(ctx context.Context, log int) error {
	_, err := p.look.Exec(ctx, "select pg_logical_emit_message(false, 'age', repeat('x', 1048576)) from generate_series(1, $1)", log)
	if err != nil {
		return err
	}
	_, err = p.look.Exec(ctx, "checkpoint")
	return err
}

// sharedBuffers is 1 GB where the machine has plenty.
func sharedBuffers() string {
	const plenty = 8 << 20 // KB
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "256MB"
	}
	fields := strings.Fields(string(text)) // MemTotal: is the first line
	if len(fields) > 1 {
		if n, err := strconv.Atoi(fields[1]); err == nil && n >= plenty {
			return "1GB"
		}
	}
	return "256MB"
}

func (p *postgres) connect(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.cluster.URL(""))
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, `select split_part(current_setting('server_version'), ' ', 1), current_setting('unix_socket_directories'),
		(select setting from pg_config where name = 'BINDIR')`).Scan(&p.version, &p.socket, &p.bin)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	if p.look, err = pgxpool.New(ctx, p.url("postgres")); err != nil || !p.counts() {
		return err
	}
	return p.startCounting(ctx)
}

// url is how to connect by the unix socket.
func (p *postgres) url(database string) string {
	u, err := url.Parse(p.cluster.URL(database))
	if err != nil {
		return "" // pgtest's own
	}
	query := url.Values{"host": {p.socket}, "port": {u.Port()}}
	u.Host, u.RawQuery = "", query.Encode()
	return u.String()
}

func (p *postgres) stop() error {
	if p.look != nil {
		p.look.Close()
	}
	return p.cluster.Stop()
}

// A database is one variant's own.
type database struct {
	server *postgres
	name   string
	url    string
	look   *pgxpool.Pool // for who counts, not for the variant
}

// database makes one with the tables that migrate brings. End it with drop.
func (p *postgres) database(ctx context.Context, migrate func(context.Context, *pgxpool.Pool) error) (*database, error) {
	p.databases++
	d := &database{server: p, name: "variant_" + strconv.Itoa(p.databases)}
	d.url = p.url(d.name)
	_, err := p.cluster.CreateDatabase(ctx, d.name)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 2
	if d.look, err = pgxpool.NewWithConfig(ctx, config); err == nil {
		err = migrate(ctx, d.look)
	}
	if err != nil {
		return nil, errors.Join(err, d.drop())
	}
	return d, nil
}

func (d *database) drop() error {
	if d.look != nil {
		d.look.Close()
	}
	return d.server.cluster.DropDatabase(context.Background(), d.name)
}

// config is for a pool of so many connections.
func (d *database) config(size int32) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(d.url)
	if err == nil {
		config.MaxConns = size
	}
	return config, err
}

// pool is a plain one, as pgx makes it: with statements prepared by name.
func (d *database) pool(ctx context.Context, size int32) (*pgxpool.Pool, error) {
	config, err := d.config(size)
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *database) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	return n, d.look.QueryRow(ctx, sql, args...).Scan(&n)
}

// migrateStore is a migration that makes the store's tables.
func migrateStore(ctx context.Context, pool *pgxpool.Pool) error {
	return pgstore.Migrate(ctx, pool, "")
}

// script is a migration that is one text of SQL.
func script(sql string) func(context.Context, *pgxpool.Pool) error {
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
}

// A position is how much a server has written.
type position struct {
	wal          float64 // bytes
	transactions float64 // with an id of their own, as those have that write
}

func (p *postgres) position(ctx context.Context) (at position, err error) {
	return at, p.look.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0')::float8,
		(pg_snapshot_xmax(pg_current_snapshot())::text)::float8`).Scan(&at.wal, &at.transactions)
}

// program is the file of one of the server's programs.
func (p *postgres) program(name string) (string, error) {
	file := filepath.Join(p.bin, name)
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("bench: no %s beside the server: %w", name, err)
	}
	return file, nil
}
