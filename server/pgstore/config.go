package pgstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// The defaults of a zero [Config].
const (
	DefaultLockTimeout  = 5 * time.Second
	DefaultCloseTimeout = 10 * time.Second

	DefaultPartitionInterval = 24 * time.Hour
)

// ConfirmReplays says when a final record must be confirmed by a write of its
// own before it is returned, and so before its answer may be replayed.
//
// A record can be visible on a primary although no standby has it. Then an operator, or a client
// that gave up, canceled the wait for the standby. If that primary is then lost, so is the record,
// and a replay has promised too much. A write that is confirmed proves that all before it are.
type ConfirmReplays uint8

const (
	// ConfirmAuto confirms while the server's synchronous_standby_names is not
	// empty. The server is asked in the same statement that reads the record.
	ConfirmAuto ConfirmReplays = iota
	// ConfirmAlways confirms on every server, as for one whose standbys are
	// not of Postgres' making. Each replay then costs a flush of the WAL.
	ConfirmAlways
	// ConfirmNever returns what is visible. With synchronous standbys a
	// failover can then lose an answer that was replayed before.
	ConfirmNever
)

// A Config has the choices that a store leaves. Its zero value is ready to use.
type Config struct {
	// Schema is the Postgres schema that holds the tables. If it is empty [Open] looks once where
	// the search_path finds them, and the statements name that schema from then on. With [New]
	// the first [Store.Check] or transaction looks. A name matches ^[a-z_][a-z0-9_]{0,62}$ and does not start with pg_.
	Schema string

	// ConfirmReplays protects replays from a failover. Zero means [ConfirmAuto].
	ConfirmReplays ConfirmReplays

	// Answers says where answers are kept. Zero means [AnswersInline].
	Answers Answers

	// PartitionInterval is how much time one partition of answers covers; not
	// less than a second. Zero means [DefaultPartitionInterval]. It can be changed
	// at any time: it counts for the partitions still to be made.
	PartitionInterval time.Duration

	// LockTimeout is how long an operation of the store waits for a row that a
	// transaction holds, as an undo does with its forward key. Past it the
	// operation fails and has changed nothing; the undo gets in-progress. A claim waits no longer than
	// [store.MaxLockWait]. While claims, settlements and operators' verbs wait they
	// hold no connection. LockTimeout does not bound the statements of handlers. Zero means
	// [DefaultLockTimeout]; the least is 1 ms.
	LockTimeout time.Duration

	// CloseTimeout is how long [Store.Close] waits for running writes before it
	// breaks their connections. It waits as long for transactions of handlers before it
	// returns without them. Zero means [DefaultCloseTimeout].
	CloseTimeout time.Duration

	// SeparateCommits gives each claim and settlement a statement, a connection and a commit of its
	// own. It gives each read a statement of its own. It is for a server that cannot bear shared
	// commits. If it is false, writes that wait at the same time share a commit, and a write that
	// is alone is sent at once. At most four shared commits run at once, each on a connection of its
	// own, or as many as half of the pool's connections if that is less.
	SeparateCommits bool

	// SynchronousClaims makes each claim wait until it is durable (synchronous_commit). If it is
	// false, the first claim of a key on a Transactional route is an asynchronous commit, where a
	// guard allows that. A crash or a failover of the server can then forget the claim, but only
	// together with each later commit. So the handler's transaction of a forgotten claim is rolled
	// back, its call gets lease-lost, and the next call runs. A run that asks for its fence, or calls
	// another service under a child key, first waits until its claim is durable. If most runs do so,
	// set SynchronousClaims. For ten minutes after this pool has lost a connection all claims wait.
	// With SeparateCommits all claims wait.
	SynchronousClaims bool

	// KeepRoutes stores the Route of every claim, so that people see the operation of each key and can
	// search for it. A row then takes one byte and the length of its Route more, and so does the log of its claim.
	// If it is false, only Opaque and quarantined records have a Route. A change counts for the claims after it.
	KeepRoutes bool

	// MaxQueued is how many writes may wait to share a commit, and how many reads
	// to share a statement. More claims and reads are refused with [ErrQueueFull], and a guard
	// answers 503 not-claimed with Retry-After. Settlements are not refused, and go before claims: what is
	// finished is recorded. Zero means 4096.
	MaxQueued int

	// Listen makes the store listen, on a connection of its own, for notifications
	// that runs in other processes have ended. They arrive within about a millisecond.
	// Without Listen, and while that connection is broken, the store asks
	// (see [Store.Watch]). The connection needs a session: it must not go through a
	// pooler in transaction mode. It must come from [pgx.ParseConfig], be to the
	// pool's database; its role needs no more than usage of
	// the schema. The process that completes a key sends a notification if another one
	// listens and waits for it, whatever the Listen of its own store. Such commits go one
	// after the other: leave Listen out where commits wait for a standby that is far
	// away. nil: none.
	Listen *pgx.ConnConfig

	// Isolation is the isolation level of the transactions that handlers run
	// in. Empty means READ COMMITTED, whatever the database's default is. With a
	// higher level a run that takes longer than a third of its lease conflicts with the
	// renewal of that lease, and is run again. It also conflicts with a waiting process that
	// listens: then no store with these tables can have a Listen.
	Isolation pgx.TxIsoLevel

	// Distributed says that Citus distributes the tables, see [Distribute]. [Open] finds that out
	// by itself. With [New] it must be set where it is so, or [Store.Check] returns an error wrapping [ErrConfig].
	// Distributed tables allow no Listen: waiting callers are told by polls.
	Distributed bool

	// Migrate lets [Open] bring the tables to the version of this program first, as [Migrate] does. Several processes may
	// start so at the same time. The pool's role must own the tables, or be allowed to create them. Leave it false where
	// a deploy migrates, and the service has fewer rights. [New] refuses it.
	Migrate bool

	// AllowNonDurable lets [Open] accept a server with fsync or
	// synchronous_commit off, as tests use. A crash of such a server forgets
	// claims and answers that were acknowledged.
	AllowNonDurable bool

	// Logger gets a warning where commits wait for no standby although there is one:
	// see [Store.Check]. nil is silent.
	Logger *slog.Logger
}

var isolations = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// common returns the choices that journals and stores leave alike.
func (c Config) common() component.Config {
	return component.Config{
		Schema: c.Schema, LockTimeout: c.LockTimeout, CloseTimeout: c.CloseTimeout,
		MaxQueued: c.MaxQueued, SeparateCommits: c.SeparateCommits, AllowNonDurable: c.AllowNonDurable, Logger: c.Logger,
		Distributed: c.Distributed,
	}
}

// withDefaults returns c with its zeros filled in, or an error that names the field.
func (c Config) withDefaults() (Config, error) {
	c.LockTimeout = cmp.Or(c.LockTimeout, DefaultLockTimeout)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, DefaultCloseTimeout)
	if err := c.common().Check(); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.PartitionInterval == 0 {
		c.PartitionInterval = DefaultPartitionInterval
	}
	if c.Isolation == "" {
		c.Isolation = pgx.ReadCommitted
	}
	switch {
	case c.Distributed && c.Listen != nil:
		return c, fmt.Errorf("%w: Listen is not for distributed tables", ErrConfig)
	case c.ConfirmReplays > ConfirmNever:
		return c, fmt.Errorf("%w: ConfirmReplays %d is not ConfirmAuto, ConfirmAlways or ConfirmNever", ErrConfig, c.ConfirmReplays)
	case c.Answers > AnswersLeaving:
		return c, fmt.Errorf("%w: Answers %d is none of its constants", ErrConfig, c.Answers)
	case c.PartitionInterval < time.Second || c.PartitionInterval > 366*24*time.Hour || c.PartitionInterval%time.Second != 0:
		return c, fmt.Errorf("%w: PartitionInterval %v is not a number of seconds up to 366 days", ErrConfig, c.PartitionInterval)
	case !slices.Contains(isolations, c.Isolation):
		return c, fmt.Errorf("%w: Isolation %q is none of %q", ErrConfig, c.Isolation, isolations)
	}
	return c.listening()
}

// listening returns c with a Listen of its own.
func (c Config) listening() (Config, error) {
	switch {
	case c.Listen == nil:
		return c, nil
	case c.Listen.DialFunc == nil || c.Listen.LookupFunc == nil: // pgx panics, and much later
		return c, fmt.Errorf("%w: Listen must come from pgx.ParseConfig", ErrConfig)
	case c.Isolation != pgx.ReadCommitted:
		return c, fmt.Errorf("%w: Listen is not for Isolation %q", ErrConfig, c.Isolation)
	}
	c.Listen = c.Listen.Copy()
	return c, nil
}
