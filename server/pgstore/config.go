package pgstore

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server/pgkit"
)

// What a zero [Config] means.
const (
	DefaultLockTimeout  = 5 * time.Second
	DefaultCloseTimeout = 10 * time.Second

	DefaultPartitionInterval = 24 * time.Hour
)

// ConfirmReplays says when a final record must be confirmed by a write of its
// own before it is returned, and so before its answer may be replayed.
//
// A record can be visible on a primary though no standby has it: the wait for
// the standby was canceled, by an operator or by a client that gave up. If that
// primary is then lost, so is the record, and with it what its replays promised.
// A write that is confirmed proves that all before it are.
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

// Combining says whether claims and settlements that wait at the same time share
// a commit, and reads a statement.
type Combining uint8

const (
	// CombiningOn sends them together. One that is alone is sent at once, as
	// with CombiningOff; [pgkit.Combiner] says how the others go.
	CombiningOn Combining = iota
	// CombiningOff gives each a statement and a connection of its own, and each
	// write a commit.
	CombiningOff
)

// A Config has the choices that a store leaves. Its zero value is ready to use.
type Config struct {
	// Schema is the Postgres schema that holds the tables. Empty means that
	// the search_path finds them. [pgkit.CheckSchemaName] says what it can be.
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
	// operation fails and has changed nothing. A claim waits no longer than
	// [server.MaxLockWait]. While claims, settlements and operators' verbs wait they
	// hold no connection. LockTimeout does not bound the statements of handlers. Zero means
	// [DefaultLockTimeout]; the least is 1 ms.
	LockTimeout time.Duration

	// CloseTimeout is how long [Store.Close] waits for writes under way before
	// it breaks their connections, and for transactions of handlers before it
	// returns without them. Zero means [DefaultCloseTimeout].
	CloseTimeout time.Duration

	// MaxParked is how many writes may be left waiting for an answer of the
	// server by callers whose time was up. More are refused with
	// [pgkit.ErrBusy]. Shared commits and renewals do not count. Zero means half of the
	// pool's connections. A write that has no answer in time loses its connection; see
	// [pgkit.Writer].
	MaxParked int

	// Combining says whether writes share commits, and reads statements. Zero means
	// [CombiningOn].
	Combining Combining

	// MaxFlushes is how many shared commits may be under way at once, each on a
	// connection of its own, also where the server stalls. At least one of the pool's
	// connections must be left. Zero means [pgkit.DefaultMaxFlushes], or half of
	// the pool's connections if that is less. Two or three take less processor time
	// for each write, and with hundreds of callers two give up some of the rate.
	MaxFlushes int

	// MaxQueued is how many writes may wait to share a commit, and how many reads
	// to share a statement. More are refused with [pgkit.ErrQueueFull], and a guard
	// answers 503 store-unavailable with Retry-After. Zero means
	// [pgkit.DefaultMaxQueued].
	MaxQueued int

	// Listen makes the store listen on a connection of its own for notifications
	// that runs in other processes have ended, which it is the first to hear of
	// within about a millisecond. Else, and while that connection is broken, it asks
	// (see [Store.Watch]). The connection needs a session: it must not go through a
	// pooler in transaction mode. It must come from [pgx.ParseConfig], be to the
	// pool's database, and find the same tables; its role needs no more than usage of
	// the schema. Whoever completes a key then sends a notification if somebody listens
	// and waits for it, whatever the Listen of its own store. Such commits go one
	// after the other: leave Listen out where commits wait for a standby that is far
	// away. nil: none.
	Listen *pgx.ConnConfig

	// Isolation is the isolation level of the transactions that handlers run
	// in. Empty means READ COMMITTED, whatever the database's default is. With
	// a higher one a run that takes longer than a third of its lease conflicts
	// with the renewal of that lease, and is run again; and so does one that somebody
	// waits for who listens, so that no store with these tables can have a Listen.
	Isolation pgx.TxIsoLevel

	// AllowNonDurable lets [Open] accept a server with fsync or
	// synchronous_commit off, as tests use. A crash of such a server forgets
	// claims and answers that were acknowledged.
	AllowNonDurable bool

	// Logger gets a warning where commits wait for no standby although there is one:
	// see [Store.Check]. nil is silent.
	Logger *slog.Logger
}

var isolations = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// filled returns c with its zeros filled in, or an error that names the field.
func (c Config) filled() (Config, error) {
	if err := pgkit.CheckSchemaName(c.Schema); err != nil {
		return c, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = DefaultLockTimeout
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	if c.PartitionInterval == 0 {
		c.PartitionInterval = DefaultPartitionInterval
	}
	if c.Isolation == "" {
		c.Isolation = pgx.ReadCommitted
	}
	switch {
	case c.ConfirmReplays > ConfirmNever:
		return c, fmt.Errorf("%w: ConfirmReplays %d", ErrConfig, c.ConfirmReplays)
	case c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour:
		return c, fmt.Errorf("%w: LockTimeout %v is not between 1ms and 1h", ErrConfig, c.LockTimeout)
	case c.Answers > AnswersLeaving:
		return c, fmt.Errorf("%w: Answers %d", ErrConfig, c.Answers)
	case c.PartitionInterval < time.Second || c.PartitionInterval > 366*24*time.Hour || c.PartitionInterval%time.Second != 0:
		return c, fmt.Errorf("%w: PartitionInterval %v is not a number of seconds up to 366 days", ErrConfig, c.PartitionInterval)
	case c.CloseTimeout < 0:
		return c, fmt.Errorf("%w: CloseTimeout %v is negative", ErrConfig, c.CloseTimeout)
	case c.MaxParked < 0:
		return c, fmt.Errorf("%w: MaxParked %d is negative", ErrConfig, c.MaxParked)
	case c.Combining > CombiningOff:
		return c, fmt.Errorf("%w: Combining %d", ErrConfig, c.Combining)
	case c.MaxFlushes < 0 || (c.MaxFlushes > 0 && c.Combining == CombiningOff):
		return c, fmt.Errorf("%w: MaxFlushes %d with Combining %d", ErrConfig, c.MaxFlushes, c.Combining)
	case c.MaxQueued < 0 || (c.MaxQueued > 0 && c.Combining == CombiningOff):
		return c, fmt.Errorf("%w: MaxQueued %d with Combining %d", ErrConfig, c.MaxQueued, c.Combining)
	case !slices.Contains(isolations, c.Isolation):
		return c, fmt.Errorf("%w: Isolation %q", ErrConfig, c.Isolation)
	}
	return c.listening()
}

// listening returns c with a Listen of its own.
func (c Config) listening() (Config, error) {
	switch {
	case c.Listen == nil:
		return c, nil
	case c.Listen.DialFunc == nil || c.Listen.LookupFunc == nil: // pgx panics, and much later
		return c, fmt.Errorf("%w: Listen does not come from pgx.ParseConfig", ErrConfig)
	case c.Isolation != pgx.ReadCommitted:
		return c, fmt.Errorf("%w: Listen with Isolation %q", ErrConfig, c.Isolation)
	}
	c.Listen = c.Listen.Copy()
	return c, nil
}
