package pgjournal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/journal"
)

var (
	// ErrArgument: a value that cannot be stored, refused before anything was
	// sent. It matches [journal.ErrRefused].
	ErrArgument error = refusedError("pgjournal: bad argument")
	// ErrConfig: a field of [Config], or of [Roles], has a value that it cannot
	// have.
	ErrConfig = errors.New("pgjournal: bad config")
	// ErrSeal: the [Codec] did not seal a value, so nothing was stored. Or it did not
	// open the value that a start of the same saga must be compared with.
	ErrSeal = errors.New("pgjournal: the codec failed")
)

// The state of the server, of its tables or of this process. [Open], [New], [Migrate] and
// the methods of [Journal] return errors that wrap these.
var (
	// ErrReadOnly: the server is a standby, or set read-only. A connection string
	// with several hosts wants target_session_attrs=read-write.
	ErrReadOnly = component.ErrReadOnly
	// ErrNotDurable: a setting lets the server forget, in a crash, commits that it
	// has acknowledged. The text names the setting.
	ErrNotDurable = component.ErrNotDurable
	// ErrSchemaMissing: the tables of this package are missing. Call [Migrate].
	ErrSchemaMissing = component.ErrSchemaMissing
	// ErrSchemaOlder: the tables are older than this program. Call [Migrate]. The
	// text names both versions.
	ErrSchemaOlder = component.ErrSchemaOlder
	// ErrSchemaNewer: the tables are newer than this program, and it cannot use them.
	// Deploy a newer program. The text names the versions.
	ErrSchemaNewer = component.ErrSchemaNewer
	// ErrNoCitus: [Distribute] finds no extension citus in the database.
	ErrNoCitus = component.ErrNoCitus
	// ErrPrivilege: the role may not write the tables. The text names the role, the
	// table and the missing rights; see [Roles].
	ErrPrivilege = component.ErrPrivilege
	// ErrNotPrepared: the configuration of the pool did not go through [Prepare], or its
	// DefaultQueryExecMode is the simple protocol.
	ErrNotPrepared = pgkit.ErrNotPrepared
	// ErrBusy: too many writes of this process wait for an answer of the server
	// after their callers have left; see Config.MaxDetached. The request was not sent.
	ErrBusy = pgkit.ErrBusy
	// ErrQueueFull: Config.MaxQueued requests wait already. The request was not sent.
	ErrQueueFull = pgkit.ErrQueueFull
	// ErrClosed: the Journal is closed. The request was not sent.
	ErrClosed = pgkit.ErrClosed
)

// wrap says what was being done, and speaks of fates in the engine's terms.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConfig), errors.Is(err, ErrArgument): // it begins with the package
		return err
	case errors.Is(err, pgkit.ErrFateUnknown):
		return fmt.Errorf("pgjournal: %s: %w", doing, errtext.Mark(errtext.Inner(err), journal.ErrFateUnknown))
	case isRefused(err):
		return fmt.Errorf("pgjournal: %s: %w", doing, errtext.Mark(errtext.Inner(err), journal.ErrRefused))
	}
	return fmt.Errorf("pgjournal: %s: %w", doing, errtext.Inner(err))
}

// refusals are the classes of SQLSTATE that say what a repetition does not change: bad
// data, a violated constraint, a wrong password, a missing database, schema, table or
// right. A full disk, a shutdown and an internal error are not among them.
var refusals = []string{"22", "23", "28", "3D", "3F", "42"}

// isRefused reports whether a repetition of the same request would fail in the same way.
func isRefused(err error) bool {
	if errors.Is(err, pgkit.ErrClosed) || errors.Is(err, pgkit.ErrStatement) {
		return true
	}
	var answer *pgconn.PgError
	return errors.As(err, &answer) && slices.Contains(refusals, answer.Code[:min(2, len(answer.Code))])
}

// A refusedError matches [journal.ErrRefused], and its text begins with this package.
type refusedError string

func (e refusedError) Error() string { return string(e) }

func (refusedError) Is(target error) bool { return target == journal.ErrRefused }
