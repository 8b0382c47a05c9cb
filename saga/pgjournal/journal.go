package pgjournal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/journal"
)

// A Journal keeps sagas in a Postgres database. Many journals, in many processes,
// can share its tables. It is safe for concurrent use.
type Journal struct {
	db       *component.Database
	cfg      Config
	rows     *combined
	sealer   sealer
	reader   *Reader
	query    *queries
	locals   chan struct{} // a place for each transaction of a local step
	ownsPool bool
}

var _ journal.Journal = (*Journal)(nil)

// Prepare makes the connections of a pool with this configuration fit for a
// journal. Call it after every other change to cfg, and
// only if the pool is not made by [Open].
func Prepare(cfg *pgxpool.Config) { pgkit.Prepare(cfg) }

// OpenURL is [Open] with the pool that url describes, such as postgres://user@host/db?pool_max_conns=20; see
// [pgxpool.ParseConfig]. The journal shares its pool with the service, see [Journal.Pool]. An empty url is an error
// wrapping [ErrConfig]: for the server that the PG* variables name, parse "" yourself. A service that has a
// pgstore.Store calls [New] with that store's pool.
func OpenURL(ctx context.Context, url string, cfg Config) (*Journal, error) {
	poolCfg, err := journalTables.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return Open(ctx, poolCfg, cfg)
}

// Open makes a pool from a copy of poolCfg, which must come from
// [pgxpool.ParseConfig], connects, and checks the server. The server must accept writes and
// keep them in a crash. It must have the tables at the right version, and let the role write
// them. Several hosts with target_session_attrs=read-write find the primary after a failover.
//
// While the server is down, starting, read-only or out of connections, Open asks again until
// ctx ends: a service can start before its database. Config.Logger gets one warning of
// that. Give ctx a deadline if the service is not to wait.
//
// At once Open returns errors wrapping [ErrConfig], [ErrNotDurable],
// [ErrSchemaMissing], [ErrSchemaOlder], [ErrSchemaNewer] or [ErrPrivilege], and the server's refusal
// of a role, password or database.
// Once ctx has ended, the error wraps both the error of ctx and the server's last one, such
// as [ErrReadOnly]. End the journal
// with [Journal.Close], after its engine: that closes the pool.
func Open(ctx context.Context, poolCfg *pgxpool.Config, cfg Config) (*Journal, error) {
	if _, err := cfg.fillDefaults(); err != nil {
		return nil, err
	}
	pool, err := journalTables.Pool(ctx, poolCfg)
	if err != nil {
		return nil, wrap("open", err)
	}
	migrate := cfg.Migrate
	cfg.Migrate = false
	j, err := New(pool, cfg)
	if err == nil && migrate {
		err = wrap("open", await(ctx, func() error { return journalTables.Migrations.Up(ctx, pool, cfg.Schema) }, cfg.warnAway))
	}
	if err == nil {
		j, err = j.adaptToTables(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	j.ownsPool = true
	if err := await(ctx, func() error { return j.Check(ctx) }, cfg.warnAway); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// adaptToTables returns j with the statements that the tables need. j has sent nothing.
func (j *Journal) adaptToTables(ctx context.Context) (*Journal, error) {
	cfg := j.cfg
	err := await(ctx, func() (err error) {
		cfg.Schema, cfg.Distributed, err = journalTables.Find(ctx, j.db.Pool, cfg.Schema)
		return err
	}, cfg.warnAway)
	if err != nil {
		return nil, wrap("open", err)
	}
	j.Close()
	return New(j.db.Pool, cfg)
}

// warnAway logs that Open waits for the server.
func (c Config) warnAway(err error) {
	if c.Logger != nil {
		c.Logger.Warn("pgjournal: waiting for the server", "error", err)
	}
}

// New returns a journal on a pool that the caller made and will close, after
// [Journal.Close]. Its configuration must have gone through [Prepare], else New
// returns an error wrapping [ErrNotPrepared].
//
// New sends nothing. [Journal.Check] asks what [Open] asks.
func New(pool *pgxpool.Pool, cfg Config) (*Journal, error) {
	cfg, err := cfg.fillDefaults()
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
	db, err := journalTables.Database(pool, cfg.common(), query.Flush)
	if err != nil {
		return nil, err
	}
	reader, err := NewReader(pool, ReaderConfig{Schema: cfg.Schema, Codec: cfg.Codec})
	if err != nil {
		return nil, err
	}
	places := max(1, int(pool.Config().MaxConns)/2)
	j := &Journal{db: db, cfg: cfg, query: query, sealer: cfg.sealer(), reader: reader, locals: make(chan struct{}, places)}
	j.rows = newCombined(db.Combiner, statements{query, db.Briefly}, cfg.LockTimeout, &db.Placement)
	return j, nil
}

// Check asks the server whether it accepts writes and keeps them, whether
// the tables are there, and whether the role may write them, and returns the errors of [Open]. It suits a readiness
// probe. The first Check that succeeds warns Config.Logger if the server has a standby
// and commits wait for none: a failover can then lose sagas and steps.
func (j *Journal) Check(ctx context.Context) error {
	return wrap("check", j.db.Check(ctx))
}

// Pool returns the journal's pool, for the service's own statements and for [Start]. A pool that [Open] made is closed by
// [Journal.Close]. The journal needs connections of it: do not hold all of them.
func (j *Journal) Pool() *pgxpool.Pool { return j.db.Pool }

// Queued returns how many writes wait to share a commit at this moment; see
// [Config].MaxQueued.
func (j *Journal) Queued() int { return j.db.Queued() }

// Close refuses further writes. It waits for running writes for at most
// Config.CloseTimeout, then breaks their connections: such a write may be
// durable or not. It closes the pool if [Open] made it. Close the engine first,
// or it can hand over nothing.
func (j *Journal) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.CloseTimeout)
	defer cancel()
	j.db.Close(ctx)
	if j.ownsPool {
		j.db.Pool.Close()
	}
}
