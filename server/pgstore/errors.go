package pgstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/store"
)

var (
	// ErrArgument is [store.ErrArgument]: a value that cannot be stored, refused before anything was sent.
	ErrArgument = store.ErrArgument
	// ErrConfig: a field of [Config] has a value that it cannot have.
	ErrConfig = errors.New("pgstore: bad config")
	// ErrNoTx: ctx carries no transaction, as outside a Transactional run, a
	// completion hook and [Store.OnceFunc].
	ErrNoTx = errors.New("pgstore: no transaction in this context: only a Transactional run, a completion hook and OnceFunc have one")
	// ErrTxOwned: a handler tried to end the transaction that it runs in. It
	// ends with the run: committed with the answer, or rolled back.
	ErrTxOwned = errors.New("pgstore: the transaction ends with its run: leave Commit and Rollback out, or use a savepoint")
	// ErrTxEnded: the run that the transaction belonged to is over.
	ErrTxEnded = errors.New("pgstore: transaction has ended")
	// ErrTxFailed: a statement of the transaction failed, or its COMMIT. No row is
	// committed.
	ErrTxFailed = errors.New("pgstore: a statement of the transaction failed")
	// ErrTxBusy: the handler left rows or a batch of the transaction open.
	// No row was committed.
	ErrTxBusy = errors.New("pgstore: the transaction still has open rows")
)

// The state of the server, of its tables or of this process. [Open], [New], [Migrate] and
// the methods of [Store] return errors that wrap these.
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
	// ErrNoCitus: [Distribute] finds no Citus in the database.
	ErrNoCitus = component.ErrNoCitus
	// ErrPrivilege: the role may not write the tables. The text names the role, the
	// table and the missing rights; see [Roles].
	ErrPrivilege = component.ErrPrivilege
	// ErrNotPrepared: the configuration of the pool did not go through [Prepare], or its
	// DefaultQueryExecMode is the simple protocol.
	ErrNotPrepared = pgkit.ErrNotPrepared
	// ErrBusy: too many writes of this process wait for an answer of the server
	// after their callers have left: as many as half of the pool's connections. The
	// request was not sent.
	ErrBusy = pgkit.ErrBusy
	// ErrQueueFull: Config.MaxQueued requests wait already. The request was not sent.
	ErrQueueFull = pgkit.ErrQueueFull
	// ErrClosed: the Store is closed. The request was not sent.
	ErrClosed = pgkit.ErrClosed
)

// wrap adds the operation to an error, and translates an unknown fate to the server package's
// error.
func wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConfig), errors.As(err, new(argumentError)): // it begins with the package
		return err
	case errors.Is(err, pgkit.ErrFateUnknown):
		return fmt.Errorf("pgstore: %s: %w", doing, errtext.Mark(errtext.Inner(err), store.ErrFateUnknown))
	}
	switch full := new(*pgkit.PoolError); {
	case errors.As(err, full):
		err = &store.BusyError{Pool: (*full).Database, Size: (*full).Size, Err: err}
	case sentNothing(err):
		err = &store.BusyError{Err: err}
	}
	return fmt.Errorf("pgstore: %s: %w", doing, errtext.Inner(err))
}

// sentNothing reports whether no statement reached a server that writes: it could not be dialled, had no connection left,
// is a standby, or the queue to it was full.
func sentNothing(err error) bool {
	switch pgkit.Classify(err) {
	case pgkit.FailureNotSent, pgkit.FailureTooManyConnections, pgkit.FailureReadOnly:
		return true
	default:
		return false
	}
}

// An argumentError matches [ErrArgument], and its text begins with this package.
type argumentError struct{ error }

func badArgument(format string, values ...any) error {
	return argumentError{fmt.Errorf(format, values...)}
}

func (e argumentError) Error() string { return "pgstore: bad argument: " + e.error.Error() }

func (e argumentError) Unwrap() []error { return []error{ErrArgument, e.error} }

// refusalOf returns the server's refusal in err, or nil. If the fate of a write is unknown, an error that
// it wraps does not describe the write.
func refusalOf(err error) *pgconn.PgError {
	var refused *pgconn.PgError
	if err == nil || errors.Is(err, pgkit.ErrFateUnknown) || !errors.As(err, &refused) {
		return nil
	}
	return refused
}

func hasCode(err error, codes ...string) bool {
	refused := refusalOf(err)
	return refused != nil && slices.Contains(codes, refused.Code)
}

// isTaken reports whether an insert failed because its key is there.
func isTaken(err error) bool {
	refused := refusalOf(err)
	if refused == nil || refused.Code != "23505" {
		return false
	}
	return isFromWorker(refused) || (refused.TableName == "idempotency" && strings.HasPrefix(refused.ConstraintName, keyConstraint))
}

// keyConstraint is the constraint that such an insert violates. It can also violate an index whose
// name begins with that name, while another index replaces the constraint's (reindex concurrently).
// The failure of another constraint belongs to the work.
const keyConstraint = "idempotency_pkey"

// isFromWorker reports whether the error comes from a worker of Citus. The coordinator passes on its code
// and text, and not the names of table and constraint.
func isFromWorker(refused *pgconn.PgError) bool {
	return refused.Routine == "ReportResultError" && refused.TableName == "" && refused.ConstraintName == ""
}

// isNull reports whether a column of a distributed table that must not be null was.
func isNull(err error) bool {
	refused := refusalOf(err)
	return refused != nil && refused.Code == "23502" && isFromWorker(refused)
}

// isLeaseLost reports whether err is the failure that settle_tx.sql makes for itself.
func isLeaseLost(err error) bool { return hasCode(err, "22P02") }

// isWithoutPartition reports whether an answer found no partition, so that nothing changed.
func isWithoutPartition(err error) bool {
	refused := refusalOf(err)
	if refused == nil || refused.Code != "23514" || refused.ConstraintName != "" {
		return false
	}
	return refused.TableName == "idempotency_answer" || isFromWorker(refused)
}

// isOfSingleRecords reports whether the statement may have failed because of some of its records:
// somebody holds them, or the server cannot read or change them.
func isOfSingleRecords(err error) bool {
	switch pgkit.Classify(err) {
	case pgkit.FailureLockTimeout, pgkit.FailureConflict:
		return true
	case pgkit.FailureRefused:
		refused := refusalOf(err)
		return refused != nil && slices.Contains([]string{"22", "23", "P0", "XX"}, refused.Code[:2])
	default:
		return false
	}
}

// isUnsendable reports whether pgx could not encode a batch. pgx may close the connection
// then, in the middle of a transaction.
func isUnsendable(err error) bool {
	var preparing pgx.ErrPreprocessingBatch
	var network net.Error
	switch {
	case !errors.As(err, &preparing), errors.As(err, &network), errors.As(err, new(*pgconn.PgError)):
		return false
	default:
		return !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed)
	}
}
