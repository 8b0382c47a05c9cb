package component

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A Database sends the statements of a [Component] to a Postgres database: it has a pool, and a writer and
// a combiner on it. [Component.Database] makes one. It is safe for concurrent use.
type Database struct {
	Pool        *pgxpool.Pool
	Writer      *pgkit.Writer
	Combiner    *pgkit.Combiner
	LockTimeout string // of the Config, in Postgres' milliseconds
	Briefly     string // BriefLockTimeout, more for distributed tables, or LockTimeout if that is less

	Placement pgkit.Placement // of distributed tables

	component   *Component
	cfg         Config
	replication sync.Once // logs it
}

// ParseURL returns the configuration of a pool for url, or an error wrapping the component's ErrConfig. It does not show
// a password. An empty url is an error: it is a variable that was not set more often than the server that the PG*
// variables name.
func (c *Component) ParseURL(url string) (*pgxpool.Config, error) {
	if url == "" {
		return nil, fmt.Errorf("%w: the URL is empty", c.ErrConfig)
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", c.ErrConfig, err)
	}
	return cfg, nil
}

// Pool makes a pool from a copy of cfg that has gone through [pgkit.Prepare]. It returns an error wrapping
// the component's ErrConfig for a cfg that does not come from [pgxpool.ParseConfig].
func (c *Component) Pool(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	if cfg == nil || cfg.ConnConfig == nil {
		return nil, fmt.Errorf("%w: the configuration of the pool is nil", c.ErrConfig)
	}
	cfg = cfg.Copy()
	pgkit.Prepare(cfg)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// Database returns the component's database behind pool, which must have gone through [pgkit.Prepare], with a cfg that
// [Config.Check] accepts. The query flush sets the lock timeout of a flush. If it has an argument
// named asynchronous it also makes the flush's commit asynchronous. Database sends nothing.
// It returns errors wrapping the component's ErrConfig or [pgkit.ErrNotPrepared].
func (c *Component) Database(pool *pgxpool.Pool, cfg Config, flush pgkit.Query) (*Database, error) {
	writer, err := pgkit.NewWriter(pool, cfg.MaxDetached)
	if err != nil {
		return nil, fmt.Errorf("%s: new: %w", c.Package, err)
	}
	d := &Database{
		Pool: pool, Writer: writer, component: c, cfg: cfg,
		LockTimeout: pgkit.Milliseconds(cfg.LockTimeout), Briefly: pgkit.Milliseconds(min(flush.BriefLockTimeout(), cfg.LockTimeout)),
	}
	combine := pgkit.CombinerConfig{MaxFlushes: cfg.MaxFlushes, MaxQueued: cfg.MaxQueued, Separate: cfg.SeparateCommits}
	if flush.HasArgument("asynchronous") {
		combine.Settings = flush.Bind(pgx.NamedArgs{"lock_timeout": d.Briefly, "asynchronous": false})
		combine.AsynchronousSettings = flush.Bind(pgx.NamedArgs{"lock_timeout": d.Briefly, "asynchronous": true})
	} else {
		combine.Settings = flush.Bind(pgx.NamedArgs{"lock_timeout": d.Briefly})
	}
	d.Combiner, err = pgkit.NewCombiner(writer, combine)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", c.ErrConfig, err)
	}
	return d, nil
}

// Check asks the server whether it accepts writes and keeps them, whether the component's
// tables are there, whether the role may write them, and whether the statements suit them. The first Check that succeeds
// also looks at replication, and logs what a failover can lose.
func (d *Database) Check(ctx context.Context) error {
	err := CheckServer(ctx, d.Pool, d.cfg.AllowNonDurable)
	if errors.Is(err, ErrNotDurable) {
		return fmt.Errorf("%w, which Config.AllowNonDurable accepts", err)
	}
	if err == nil {
		err = d.component.Migrations.Check(ctx, d.Pool, d.cfg.Schema)
	}
	if err != nil {
		return err
	}
	for _, table := range d.component.Tables {
		if err := CheckPrivileges(ctx, d.Pool, d.cfg.Schema, table); err != nil {
			return err
		}
	}
	if err := d.checkDistributed(ctx); err != nil {
		return err
	}
	r, err := AskReplication(ctx, d.Pool)
	if err == nil {
		d.replication.Do(func() { r.Log(ctx, d.cfg.Logger) })
	}
	return err
}

// checkDistributed finds statements that do not suit the tables. They would fail, and a flush of plain statements would
// not be one transaction.
func (d *Database) checkDistributed(ctx context.Context) error {
	distributed, err := d.component.IsDistributed(ctx, d.Pool, d.cfg.Schema)
	switch {
	case err != nil:
		return err
	case distributed && !d.cfg.Distributed:
		return fmt.Errorf("%w: the tables have been distributed since Open: start the process again", d.component.ErrConfig)
	case !distributed && d.cfg.Distributed:
		return fmt.Errorf("%w: Distributed is true, and the tables are not distributed", d.component.ErrConfig)
	}
	return d.FindShards(ctx)
}

// FindShards looks where the shards are, on which the flushes depend. A rebalance moves them.
func (d *Database) FindShards(ctx context.Context) error {
	if !d.cfg.Distributed {
		return nil
	}
	return d.Placement.Load(ctx, d.Pool, d.cfg.Schema, d.component.Tables[0])
}

// Queued returns how many writes wait to share a commit at this moment.
func (d *Database) Queued() int { return d.Combiner.Queued() }

// Close refuses further writes, waits for the writes that were sent until ctx ends, then breaks
// their connections. Their changes may be durable or not. It leaves the pool open.
func (d *Database) Close(ctx context.Context) {
	_ = d.Combiner.Close(ctx) // each write that was refused got an error
	_ = d.Writer.Close(ctx)   // each write that was broken got an error
}
