package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// A Journal keeps sagas in a Postgres database. Many journals, in many processes,
// can share its tables. It is safe for concurrent use.
type Journal struct {
	pool        *pgxpool.Pool
	cfg         Config
	writer      *pgkit.Writer
	combiner    *pgkit.Combiner // nil with CombiningOff
	rows        rowWriter
	sealer      sealer
	query       *queries
	lockTimeout string // of cfg, in Postgres' milliseconds
	ownsPool    bool
	replication sync.Once // logs it
}

var _ saga.Journal = (*Journal)(nil)

// Prepare makes the connections of a pool with this configuration fit for a
// journal; [pgkit.Prepare] says how. Call it after every other change to cfg, and
// only if the pool is not made by [Open].
func Prepare(cfg *pgxpool.Config) { pgkit.Prepare(cfg) }

// Open makes a pool from a copy of poolCfg, which must come from
// [pgxpool.ParseConfig], connects, and checks the server: it must accept writes,
// not forget them in a crash, have the tables at the right version, and let the role write
// them. Several hosts with target_session_attrs=read-write find the primary after a failover.
//
// While the server is down, starting, read-only or out of connections, Open asks again until
// ctx ends: a service can start before its database. Config.Logger gets one warning of
// that. Give ctx a deadline if the service is not to wait.
//
// At once Open returns errors wrapping [ErrConfig] or
// [pgkit.ErrNotDurable], a [*pgkit.SchemaError], see [Migrate], a
// [*pgkit.PrivilegeError], see [Roles], and the server's refusal of a role, password or database.
// Once ctx has ended, the error wraps both the error of ctx and the server's last one, such
// as [pgkit.ErrReadOnly]. End the journal
// with [Journal.Close], after its engine: that closes the pool.
func Open(ctx context.Context, poolCfg *pgxpool.Config, cfg Config) (*Journal, error) {
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
	j, err := New(pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	j.ownsPool = true
	if err := await(ctx, func() error { return j.Check(ctx) }, j.warnAway); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// warnAway logs that Open waits for the server.
func (j *Journal) warnAway(err error) {
	if j.cfg.Logger != nil {
		j.cfg.Logger.Warn("pgjournal: waiting for the server", "error", err)
	}
}

// New returns a journal on a pool that the caller made and will close, after
// [Journal.Close]. Its configuration must have gone through [Prepare], else New
// returns an error wrapping [pgkit.ErrNotPrepared].
//
// New sends nothing. [Journal.Check] asks what [Open] asks.
func New(pool *pgxpool.Pool, cfg Config) (*Journal, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	writer, err := pgkit.NewWriter(pool, cfg.MaxParked)
	if err != nil {
		return nil, wrap("new", err)
	}
	query, err := loadQueries(cfg.Schema)
	if err != nil {
		return nil, wrap("new", err)
	}
	j := &Journal{pool: pool, cfg: cfg, writer: writer, query: query, lockTimeout: milliseconds(cfg.LockTimeout), sealer: cfg.sealer()}
	if cfg.Combining == CombiningOff {
		j.rows = &singles{writer, statements{query, j.lockTimeout}}
		return j, nil
	}
	briefly := milliseconds(min(briefLockTimeout, cfg.LockTimeout))
	j.combiner, err = pgkit.NewCombiner(writer, pgkit.CombinerConfig{
		MaxFlushes: cfg.MaxFlushes,
		MaxQueued:  cfg.MaxQueued,
		Settings:   query.flush.Bind(pgx.NamedArgs{"lock_timeout": briefly}),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	j.rows = newCombined(j.combiner, statements{query, briefly}, cfg.LockTimeout)
	return j, nil
}

// milliseconds is d as Postgres reads a timeout.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Check asks the server whether it accepts writes and keeps them, whether
// the tables are there, and whether the role may write them, and returns the errors of [Open]. It suits a readiness
// probe. The first Check that succeeds warns Config.Logger if the server has a standby
// and commits wait for none: a failover can then lose sagas and steps.
func (j *Journal) Check(ctx context.Context) error {
	err := pgkit.CheckServer(ctx, j.pool, j.cfg.AllowNonDurable)
	if errors.Is(err, pgkit.ErrNotDurable) {
		return fmt.Errorf("pgjournal: %w, which Config.AllowNonDurable accepts", err)
	}
	if err == nil {
		err = Migrations.Check(ctx, j.pool, j.cfg.Schema)
	}
	if err == nil {
		err = pgkit.CheckPrivileges(ctx, j.pool, j.cfg.Schema, "saga")
	}
	if err == nil {
		err = j.checkReplication(ctx)
	}
	return wrap("check", err)
}

// checkReplication logs, once, what a failover can lose.
func (j *Journal) checkReplication(ctx context.Context) error {
	r, err := pgkit.AskReplication(ctx, j.pool)
	if err == nil {
		j.replication.Do(func() { r.Log(ctx, j.cfg.Logger) })
	}
	return err
}

// Queued returns how many writes wait to share a commit at this moment; see
// [Config].MaxQueued.
func (j *Journal) Queued() int {
	if j.combiner == nil {
		return 0
	}
	return j.combiner.Queued()
}

// Close refuses further writes, waits for those under way for at most
// Config.CloseTimeout, then breaks their connections: what they wrote may be
// durable or not. It closes the pool if [Open] made it. Close the engine first,
// or it can hand over nothing.
func (j *Journal) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.CloseTimeout)
	defer cancel()
	if j.combiner != nil {
		_ = j.combiner.Close(ctx) // whoever was refused was told
	}
	_ = j.writer.Close(ctx) // whoever waited for a write that was broken was told
	if j.ownsPool {
		j.pool.Close()
	}
}
