package pgjournal

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/server/pgkit"
)

// What a zero [Config] means.
const (
	DefaultLockTimeout  = 5 * time.Second
	DefaultCloseTimeout = 10 * time.Second
)

// Confirm says when a saga that was written before must be confirmed by a write
// of its own before anybody relies on it: one that is over before its result is
// handed out, one that a repeated start finds before its calls are sent.
//
// A row can be visible on a primary though no standby has it: the wait for the
// standby was canceled, by an operator or by a client that gave up. If that
// primary is then lost, so is the row. A write that is confirmed proves that all
// before it are.
type Confirm uint8

const (
	// ConfirmAuto confirms while the server's synchronous_standby_names is not
	// empty. The server is asked in the same statement that reads the saga.
	ConfirmAuto Confirm = iota
	// ConfirmAlways confirms on every server, as for one whose standbys are
	// not of Postgres' making.
	ConfirmAlways
	// ConfirmNever returns what is visible.
	ConfirmNever
)

// Combining says whether starts and writes of sagas that wait at the same time
// share a commit.
type Combining uint8

const (
	// CombiningOn sends them together. One that is alone is sent at once, as
	// with CombiningOff; [pgkit.Combiner] says how the others go.
	CombiningOn Combining = iota
	// CombiningOff gives each a statement, a connection and a commit of its own.
	CombiningOff
)

// A Config has the choices that a journal leaves. Its zero value is ready to use.
type Config struct {
	// Schema is the Postgres schema that holds the tables. Empty means that
	// the search_path finds them. [pgkit.CheckSchemaName] says what it can be.
	Schema string

	// Confirm protects what was promised from a failover. Zero means
	// [ConfirmAuto].
	Confirm Confirm

	// LockTimeout is how long an operation waits for a row that a transaction
	// holds, as one that is about to store the same saga. Past it the operation
	// fails and has changed nothing. Starts and writes that wait hold no connection. Zero means [DefaultLockTimeout]; the least
	// is 1 ms.
	LockTimeout time.Duration

	// CloseTimeout is how long [Journal.Close] waits for writes under way before
	// it breaks their connections. Zero means [DefaultCloseTimeout].
	CloseTimeout time.Duration

	// MaxParked is how many writes may be left waiting for an answer of the
	// server by callers whose time was up. More are refused with
	// [pgkit.ErrBusy]. Shared commits do not count. Zero means half of the pool's connections.
	MaxParked int

	// Combining says whether writes share commits. Zero means [CombiningOn].
	Combining Combining

	// MaxFlushes is how many shared commits may be under way at once, each on a
	// connection of its own, also where the server stalls. At least one of the pool's
	// connections must be left. Zero means [pgkit.DefaultMaxFlushes], or half of
	// the pool's connections if that is less.
	MaxFlushes int

	// MaxQueued is how many writes may wait to share a commit. More are refused
	// with [pgkit.ErrQueueFull]; an engine sends them again. Zero means
	// [pgkit.DefaultMaxQueued].
	MaxQueued int

	// Codec seals the content of sagas at rest; see [Codec]. All journals on the same
	// tables need it, and all calls of [Start] ([Journal.StartConfig] has it). To give
	// a codec to tables that have sagas: first run all processes with Codec,
	// AcceptPlain and StorePlain, then without StorePlain. Once no plain saga is left,
	// run them without AcceptPlain.
	//
	// To rotate keys, give the new key to all processes as a further one, then make it
	// the current one. Keep the old key as long as sagas and lines of the audit log
	// that it sealed are kept. nil stores everything as it is.
	Codec Codec
	// AcceptPlain reads values that are not sealed. If it is false a saga with such a
	// value is damaged. A person who can write to the tables can then forge none.
	AcceptPlain bool
	// StorePlain seals nothing new, and opens what is sealed. It needs AcceptPlain.
	StorePlain bool

	// AllowNonDurable lets [Open] accept a server with fsync or
	// synchronous_commit off, as tests use. A crash of such a server forgets
	// sagas that were started and steps that were done.
	AllowNonDurable bool

	// Logger gets a warning where commits wait for no standby although there is one:
	// see [Journal.Check]. nil is silent.
	Logger *slog.Logger
}

// filled returns c with its zeros filled in, or an error that names the field.
func (c Config) filled() (Config, error) {
	if err := pgkit.CheckSchemaName(c.Schema); err != nil {
		return c, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	if err := checkCodec(c.Codec, c.AcceptPlain, c.StorePlain); err != nil {
		return c, err
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = DefaultLockTimeout
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	switch {
	case c.Confirm > ConfirmNever:
		return c, fmt.Errorf("%w: Confirm %d", ErrConfig, c.Confirm)
	case c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour:
		return c, fmt.Errorf("%w: LockTimeout %v is not between 1ms and 1h", ErrConfig, c.LockTimeout)
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
	}
	return c, nil
}

func (c Config) sealer() sealer {
	return sealer{codec: c.Codec, acceptPlain: c.AcceptPlain, storePlain: c.StorePlain}
}
