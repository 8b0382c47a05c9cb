package pgjournal

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// The defaults of a zero [Config].
const (
	DefaultLockTimeout  = 5 * time.Second
	DefaultCloseTimeout = 10 * time.Second
)

// Confirm says when a saga that was written before must be confirmed by a write of its
// own. A finished saga is confirmed before its result is returned. A saga that a repeated
// start finds is confirmed before its calls are sent.
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

// A Config has the choices that a journal leaves. Its zero value is ready to use.
type Config struct {
	// Schema is the Postgres schema that holds the tables. If it is empty [Open] looks once where
	// the search_path finds them, and the statements name that schema from then on. With [New] the search_path of
	// each connection finds them. A name matches ^[a-z_][a-z0-9_]{0,62}$ and does not start with pg_.
	Schema string

	// Confirm protects what was promised from a failover. Zero means
	// [ConfirmAuto].
	Confirm Confirm

	// LockTimeout is how long an operation waits for a row that a transaction
	// holds, as one that is about to store the same saga. Past it the operation
	// fails and has changed nothing. Starts and writes that wait hold no connection. Zero means [DefaultLockTimeout]; the least
	// is 1 ms.
	LockTimeout time.Duration

	// CloseTimeout is how long [Journal.Close] waits for running writes before
	// it breaks their connections. Zero means [DefaultCloseTimeout].
	CloseTimeout time.Duration

	// MaxDetached is how many writes may be left waiting for an answer of the
	// server by callers whose time was up. More are refused with
	// [ErrBusy]. Shared commits do not count. Zero means half of the pool's connections.
	MaxDetached int

	// SeparateCommits gives each start and write a statement, a connection and a commit of its
	// own. It is for a server that cannot bear shared commits. If it is
	// false those that wait at the same time share a commit, and one that is alone is sent at once.
	SeparateCommits bool

	// MaxFlushes is how many shared commits may run at once, each on a
	// connection of its own, also where the server stalls. At least one of the pool's
	// connections must be left. Zero means 4, or half of
	// the pool's connections if that is less.
	MaxFlushes int

	// MaxQueued is how many writes may wait to share a commit. More sagas are refused
	// with [ErrQueueFull]. Writes about running sagas are not refused, and go before new sagas. Zero means 4096.
	MaxQueued int

	// Codec seals the content of sagas at rest; see [Codec]. All journals on the same
	// tables need it, and all calls of [Start] ([Journal.StartConfig] has it). To give
	// a codec to tables that have sagas, wrap it: first run all processes with a wrapper that
	// has OpenPlain and whose Seal returns its argument, then with one that seals. Once no
	// plain saga is left, run them with the codec itself.
	//
	// To rotate keys, give the new key to all processes as a further one, then make it
	// the current one. Keep the old key as long as sagas and lines of the audit log
	// that it sealed are kept. nil stores everything as it is.
	Codec Codec

	// Distributed says that Citus distributes the tables, see [Distribute]. [Open] finds that out by
	// itself. With [New] it must be set where it is so, or [Journal.Check] returns an error wrapping
	// [ErrConfig].
	Distributed bool

	// Migrate lets [Open] bring the tables to the version of this program first, as [Migrate] does. Several processes may
	// start so at the same time. The pool's role must own the tables, or be allowed to create them. Leave it false where
	// a deploy migrates, and the service has fewer rights. [New] refuses it.
	Migrate bool

	// AllowNonDurable lets [Open] accept a server with fsync or
	// synchronous_commit off, as tests use. A crash of such a server forgets
	// sagas that were started and steps that were done.
	AllowNonDurable bool

	// Logger gets a warning where commits wait for no standby although there is one:
	// see [Journal.Check]. nil is silent.
	Logger *slog.Logger
}

// common returns the choices that journals and stores leave alike.
func (c Config) common() component.Config {
	return component.Config{
		Schema: c.Schema, LockTimeout: c.LockTimeout, CloseTimeout: c.CloseTimeout,
		MaxDetached: c.MaxDetached, MaxFlushes: c.MaxFlushes, MaxQueued: c.MaxQueued,
		SeparateCommits: c.SeparateCommits, AllowNonDurable: c.AllowNonDurable, Logger: c.Logger,
		Distributed: c.Distributed,
	}
}

// fillDefaults returns c with its zeros filled in, or an error that names the field.
func (c Config) fillDefaults() (Config, error) {
	c.LockTimeout = cmp.Or(c.LockTimeout, DefaultLockTimeout)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, DefaultCloseTimeout)
	if err := c.common().Check(); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := checkCodec(c.Codec); err != nil {
		return c, err
	}
	if c.Confirm > ConfirmNever {
		return c, fmt.Errorf("%w: Confirm %d is none of its constants", ErrConfig, c.Confirm)
	}
	return c, nil
}

func (c Config) sealer() sealer {
	return sealer{codec: c.Codec}
}
