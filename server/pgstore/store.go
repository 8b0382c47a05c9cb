package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// A Store keeps records in one table of a Postgres database. Many stores, in
// many processes, can share the table. It is safe for concurrent use.
type Store struct {
	pool        *pgxpool.Pool
	connector   driver.Connector // of the pool, for transactions
	suspicion   suspicion        // of connections for transactions
	cfg         Config
	writer      *pgkit.Writer
	renewals    *pgkit.Writer   // apart, so that other writes that are parked stop none
	combiner    *pgkit.Combiner // nil with CombiningOff
	rows        rowWriter
	reads       *pgkit.Gatherer[server.ID, found] // nil with CombiningOff
	poller      *poller
	query       *queries
	repeats     contention // among keys of OnceFunc
	lockTimeout string     // of cfg, in Postgres' milliseconds
	briefly     string     // briefLockTimeout, or lockTimeout if that is less
	ownsPool    bool
	partitioned partitioned
	swept       position
	answers     answerSweep
	replication sync.Once // logs it
}

var (
	_ server.Store   = (*Store)(nil)
	_ server.TxStore = (*Store)(nil)
)

// Prepare makes the connections of a pool with this configuration fit for a
// store; [pgkit.Prepare] says how. Call it after every other change to cfg, and
// only if the pool is not made by [Open].
func Prepare(cfg *pgxpool.Config) { pgkit.Prepare(cfg) }

// Open makes a pool from a copy of poolCfg, which must come from
// [pgxpool.ParseConfig], connects, and checks the server: it must accept writes,
// not forget them in a crash, have the tables at the right version, and let the role write
// them. Several hosts with target_session_attrs=read-write find the primary after a failover.
// With Config.Listen it also finds out whether a notification gets through.
// It warns Config.Logger of standbys for which no commit waits, see [Store.Check].
//
// It returns errors wrapping [ErrConfig], [pgkit.ErrReadOnly],
// [pgkit.ErrNotDurable], a [*pgkit.SchemaError], see [Migrate], or a
// [*pgkit.PrivilegeError], see [Roles]. End the store
// with [Store.Close], which closes the pool.
func Open(ctx context.Context, poolCfg *pgxpool.Config, cfg Config) (*Store, error) {
	if poolCfg == nil || poolCfg.ConnConfig == nil {
		return nil, fmt.Errorf("%w: pool configuration is nil", ErrConfig)
	}
	if _, err := cfg.filled(); err != nil {
		return nil, err
	}
	poolCfg = poolCfg.Copy()
	Prepare(poolCfg)
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
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
// returns an error wrapping [pgkit.ErrNotPrepared].
//
// New sends nothing. [Store.Check] asks what [Open] asks.
func New(pool *pgxpool.Pool, cfg Config) (*Store, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	writer, err := pgkit.NewWriter(pool, cfg.MaxParked)
	if err != nil {
		return nil, wrap("new", err)
	}
	renewals, err := pgkit.NewWriter(pool, maxParkedRenewals)
	if err != nil {
		return nil, wrap("new", err)
	}
	query, err := loadQueries(cfg.Schema)
	if err != nil {
		return nil, wrap("new", err)
	}
	s := &Store{pool: pool, connector: stdlib.GetPoolConnector(pool), cfg: cfg, writer: writer, renewals: renewals, query: query}
	s.poller = newPoller(s, cfg.Listen)
	s.lockTimeout = milliseconds(cfg.LockTimeout)
	s.briefly = milliseconds(min(briefLockTimeout, cfg.LockTimeout))
	if cfg.Combining == CombiningOff {
		s.rows = &singles{writer: writer, query: query, lockTimeout: s.briefly, settleQuery: s.settleQuery}
		return s, nil
	}
	s.combiner, err = pgkit.NewCombiner(writer, pgkit.CombinerConfig{
		MaxFlushes: cfg.MaxFlushes,
		MaxQueued:  cfg.MaxQueued,
		Settings:   query.flush.Bind(pgx.NamedArgs{"lock_timeout": s.briefly}),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s.rows, s.reads = newCombined(s, s.combiner), s.newReads()
	return s, nil
}

// maxParkedRenewals is how many renewals may wait for an answer that their callers do not wait for any more.
// The next one comes a third of a lease later, and each loses its connection in time.
const maxParkedRenewals = 2

// milliseconds is d as Postgres reads a timeout.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Check asks the server whether it accepts writes and keeps them, whether
// the tables are there, and whether the role may write them, and returns the errors of [Open]. It suits a readiness
// probe.
//
// The first Check that succeeds also looks at replication. It logs a warning if the
// server has a standby and commits wait for none: a failover can then lose answers that
// were given. [server.Stats].AsyncStandbys shows the same at any time.
func (s *Store) Check(ctx context.Context) error {
	err := pgkit.CheckServer(ctx, s.pool, s.cfg.AllowNonDurable)
	if errors.Is(err, pgkit.ErrNotDurable) {
		return fmt.Errorf("pgstore: %w, which Config.AllowNonDurable accepts", err)
	}
	if err == nil {
		err = Migrations.Check(ctx, s.pool, s.cfg.Schema)
	}
	if err == nil {
		err = pgkit.CheckPrivileges(ctx, s.pool, s.cfg.Schema, "idempotency")
	}
	if err == nil && s.cfg.Answers == AnswersPartitioned {
		_, err = s.lookAtPartitions(ctx, s.pool)
	}
	if err == nil {
		err = s.checkReplication(ctx)
	}
	return wrap("check", err)
}

// checkReplication logs, once, what a failover can lose.
func (s *Store) checkReplication(ctx context.Context) error {
	r, err := pgkit.AskReplication(ctx, s.pool)
	if err == nil {
		s.replication.Do(func() { r.Log(ctx, s.cfg.Logger) })
	}
	return err
}

// Queued returns how many claims and settlements wait to share a commit at this
// moment; see [Config].MaxQueued.
func (s *Store) Queued() int {
	if s.combiner == nil {
		return 0
	}
	return s.combiner.Queued()
}

// Close tells all who wait for a run, refuses further writes, waits for those under way for at most
// Config.CloseTimeout, then breaks their connections: what they wrote may be
// durable or not. It closes the pool if [Open] made it. For transactions that handlers
// have open it waits as long: let [server.Guard.Shutdown] end the handlers
// before. The pool's last connections are closed when those end.
func (s *Store) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CloseTimeout)
	defer cancel()
	s.poller.close()
	if s.combiner != nil {
		_ = s.combiner.Close(ctx) // whoever was refused was told
	}
	_ = s.renewals.Close(ctx)
	_ = s.writer.Close(ctx) // whoever waited for a write that was broken was told
	if s.ownsPool {
		s.closePool(ctx)
	}
}

// closePool waits for the pool to close, but no longer than ctx for what handlers hold.
func (s *Store) closePool(ctx context.Context) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	select {
	case <-closed:
		return
	case <-ctx.Done():
	}
	if s.pool.Stat().AcquiredConns() == 0 {
		<-closed
	}
}
