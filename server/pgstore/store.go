package pgstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/store"
)

// A Store keeps records in one table of a Postgres database. Many stores, in
// many processes, can share the table. It is safe for concurrent use.
type Store struct {
	db          *component.Database
	connector   driver.Connector // of the pool, for transactions
	cfg         Config
	renewals    *pgkit.Writer // apart, so that detached writes do not count for them
	rows        *combined
	reads       *pgkit.BatchKind[store.ID, found]
	poller      *poller
	statements  atomic.Pointer[queries]
	named       atomic.Bool // the statements need no look at the schema any more
	changesRole atomic.Bool // a handler left its transaction with a role that may not settle
	ownsPool    bool
	partitioned partitioned
	swept       atomic.Pointer[time.Time] // where the next sweep of this process begins
	answers     answerSweep
	reader      *Reader
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.TxStore = (*Store)(nil)
)

// Prepare makes the connections of a pool with this configuration fit for a
// store. Call it after every other change to cfg, and
// only if the pool is not made by [Open].
func Prepare(cfg *pgxpool.Config) { pgkit.Prepare(cfg) }

// OpenURL is [Open] with the pool that url describes, such as postgres://user@host/db?pool_max_conns=20; see
// [pgxpool.ParseConfig]. The store shares its pool with the service, see [Store.Pool]. An empty url is an error wrapping
// [ErrConfig]: for the server that the PG* variables name, parse "" yourself.
func OpenURL(ctx context.Context, url string, cfg Config) (*Store, error) {
	poolCfg, err := storeTables.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return Open(ctx, poolCfg, cfg)
}

// Open makes a pool from a copy of poolCfg, which must come from
// [pgxpool.ParseConfig], connects, and checks the server. The server must accept writes and
// keep them in a crash. It must have the tables at the right version, and let the role write
// them. Several hosts with target_session_attrs=read-write find the primary after a failover.
// With Config.Listen it also finds out whether a notification gets through.
// It warns Config.Logger of standbys for which no commit waits, see [Store.Check].
//
// Open asks once, and fails while the server is away. A service that starts before its database
// uses [New], which sends nothing, and [Store.Check] as its readiness probe.
//
// It returns errors wrapping [ErrConfig], [ErrReadOnly], [ErrNotDurable],
// [ErrSchemaMissing], [ErrSchemaOlder], [ErrSchemaNewer] or [ErrPrivilege]. End the store
// with [Store.Close], which closes the pool.
func Open(ctx context.Context, poolCfg *pgxpool.Config, cfg Config) (*Store, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	pool, err := storeTables.Pool(ctx, poolCfg)
	if err != nil {
		return nil, wrap("open", err)
	}
	if cfg.Migrate {
		err = storeTables.Migrations.Up(ctx, pool, cfg.Schema)
		cfg.Migrate = false
	}
	if err == nil {
		cfg.Schema, cfg.Distributed, err = storeTables.Find(ctx, pool, cfg.Schema)
	}
	if err != nil {
		pool.Close()
		return nil, wrap("open", err)
	}
	s, err := New(pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.ownsPool = true
	err = s.Check(ctx)
	if err == nil {
		err = s.checkListen(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New returns a store on a pool that the caller made and will close, after
// [Store.Close]. Its configuration must have gone through [Prepare], else New
// returns an error wrapping [ErrNotPrepared].
//
// New sends nothing. [Store.Check] asks what [Open] asks.
func New(pool *pgxpool.Pool, cfg Config) (*Store, error) { return newStore(storeTables, pool, cfg) }

func newStore(tables *component.Component, pool *pgxpool.Pool, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Migrate {
		return nil, fmt.Errorf("%w: Migrate is for Open: New sends nothing; call the function Migrate with the pool", ErrConfig)
	}
	query, err := queriesBySchema.For(cfg.Schema, cfg.Distributed)
	if err != nil {
		return nil, wrap("new", err)
	}
	db, err := tables.Database(pool, cfg.common(), query.Flush)
	if err != nil {
		return nil, err
	}
	renewals, err := pgkit.NewWriter(pool, maxDetachedRenewals)
	if err != nil {
		return nil, wrap("new", err)
	}
	reader, err := NewReader(pool, ReaderConfig{Schema: cfg.Schema})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, connector: stdlib.GetPoolConnector(pool), cfg: cfg, renewals: renewals, reader: reader}
	s.statements.Store(query)
	s.named.Store(cfg.Schema != "")
	s.poller = newPoller(s, cfg.Listen)
	reads, err := pgkit.NewReadCombiner(pool, pgkit.CombinerConfig{MaxQueued: cfg.MaxQueued, Separate: cfg.SeparateCommits})
	if err != nil {
		return nil, wrap("new", err)
	}
	s.rows, s.reads = newCombined(s, db.Combiner), s.newReads(reads)
	return s, nil
}

// query returns the statements.
func (s *Store) query() *queries { return s.statements.Load() }

// nameSchema lets the statements name the schema in which the search_path of db finds the tables, where Config.Schema
// does not. A handler may change the search_path for its transaction. It sends nothing once it has found them.
func (s *Store) nameSchema(ctx context.Context, db pgkit.Queryer) error {
	if s.named.Load() {
		return nil
	}
	schema, err := storeTables.SchemaOf(ctx, db)
	if err != nil || schema == "" {
		return err
	}
	if q, err := queriesBySchema.For(schema, s.cfg.Distributed); err == nil { // else no statement can have that name
		s.statements.Store(q)
	}
	s.named.Store(true)
	return nil
}

// maxDetachedRenewals is how many renewals may wait for an answer that their callers do not wait for any more.
// The next one comes a third of a lease later, and each loses its connection in time.
const maxDetachedRenewals = 2

// Check asks the server whether it accepts writes and keeps them, whether the tables are there, and
// whether the role may write them. It returns the errors of [Open]. It suits a readiness probe.
//
// The first Check that succeeds also looks at replication. It logs a warning if the
// server has a standby and commits wait for none: a failover can then lose answers that
// were given. AsyncStandbys of a [store.Estimate] shows the same at any time.
func (s *Store) Check(ctx context.Context) error {
	err := s.db.Check(ctx)
	if err == nil {
		err = s.nameSchema(ctx, s.db.Pool)
	}
	if err == nil && s.cfg.Answers == AnswersPartitioned {
		_, err = s.lookAtPartitions(ctx, s.db.Pool)
	}
	return wrap("check", err)
}

// Pool returns the store's pool, for the service's own statements and for a journal (pgjournal.New). A pool that [Open]
// made is closed by [Store.Close]. The store needs connections of it: do not hold all of them.
func (s *Store) Pool() *pgxpool.Pool { return s.db.Pool }

// Queued returns how many claims and settlements wait to share a commit at this
// moment; see [Config].MaxQueued.
func (s *Store) Queued() int { return s.db.Queued() }

// Close wakes all callers that wait for a run, and refuses further writes. It waits for running writes
// for at most Config.CloseTimeout, then breaks their connections: such a write may be
// durable or not. It closes the pool if [Open] made it. For transactions that handlers
// have open it waits as long: let [server.Guard.Shutdown] end the handlers
// before. The pool's last connections are closed when those end.
func (s *Store) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CloseTimeout)
	defer cancel()
	s.poller.close()
	s.db.Close(ctx)
	_ = s.renewals.Close(ctx) // each renewal that was broken got an error
	if s.ownsPool {
		s.closePool(ctx)
	}
}

// closePool waits for the pool to close. It waits no longer than ctx for connections that handlers
// hold.
func (s *Store) closePool(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.db.Pool.Close()
	}()
	select {
	case <-closed:
		return
	case <-ctx.Done():
	}
	if s.db.Pool.Stat().AcquiredConns() == 0 {
		<-closed
	}
}
