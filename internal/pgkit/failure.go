package pgkit

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Failure says what an error of a statement means for the next step.
type Failure uint8

const (
	// FailureNone: there was no error.
	FailureNone Failure = iota
	// FailureNotSent: nothing reached the server.
	FailureNotSent
	// FailureConflict: a serialization failure (40001) or deadlock (40P01);
	// rolled back, and may succeed if it is run again.
	FailureConflict
	// FailureLockTimeout: another transaction held a lock for too long (55P03);
	// rolled back.
	FailureLockTimeout
	// FailureCanceled: someone or a statement_timeout canceled it (57014);
	// rolled back.
	FailureCanceled
	// FailureTooManyConnections: the server has none left (53300); nothing was
	// sent.
	FailureTooManyConnections
	// FailureReadOnly: the server is a standby, or set read-only (25006);
	// nothing changed.
	FailureReadOnly
	// FailureRefused: the server refused it for another reason; rolled back.
	FailureRefused
	// FailureLost: the connection broke after the statement may have been sent.
	// A write may have become durable, or may yet.
	FailureLost
)

var byCode = map[string]Failure{
	"40001": FailureConflict,
	"40P01": FailureConflict,
	"55P03": FailureLockTimeout,
	"57014": FailureCanceled,
	"53300": FailureTooManyConnections,
	"25006": FailureReadOnly,
}

// Classify returns what err means for the one statement, or the transaction,
// that it ended. It is pure.
func Classify(err error) Failure {
	if err == nil {
		return FailureNone
	}
	if errors.Is(err, ErrFateUnknown) {
		return FailureLost // whatever it wraps: the cause of an ended ctx does not describe the write
	}
	if errors.As(err, new(*PoolError)) {
		return FailureNotSent
	}
	var pgErr *pgconn.PgError
	var connectErr *pgconn.ConnectError
	switch connecting := errors.As(err, &connectErr); {
	case errors.As(err, &pgErr) && (!connecting || byCode[pgErr.Code] != FailureNone):
		return classifyAnswer(pgErr)
	case connecting, pgconn.SafeToRetry(err), errors.Is(err, ErrStatement), errors.Is(err, ErrBusy), errors.Is(err, ErrQueueFull), errors.Is(err, ErrClosed):
		return FailureNotSent
	default:
		return FailureLost
	}
}

func classifyAnswer(err *pgconn.PgError) Failure {
	if f, ok := byCode[err.Code]; ok {
		return f
	}
	// A session that is being shut down may have committed before it said so.
	if fatal(err) {
		return FailureLost
	}
	return FailureRefused
}

// fatal uses the severity that is not translated, which servers send since 9.6.
func fatal(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// inFailedTransaction is the SQLSTATE of every statement behind the one that failed.
const inFailedTransaction = "25P02"

// noteFailure remembers err if it is the first since the transaction on conn was sound.
// conn still has the status from before the statement. A failed transaction has status
// E until it is rolled back to a savepoint.
func noteFailure(conn *pgconn.PgConn, err *pgconn.PgError) {
	if conn.TxStatus() != 'E' && err.Code != inFailedTransaction {
		sessionOf(conn).failed.Store(err)
	}
}

// TxFailure returns the error that the transaction on conn failed with: the first one
// since the transaction was sound, on whatever path the statement took. It returns nil
// if the server has refused nothing since [WatchConflicts]. It means nothing while the
// transaction is sound: a savepoint may have undone the failure.
func TxFailure(conn *pgx.Conn) *pgconn.PgError { return sessionOf(conn.PgConn()).failed.Load() }

// IsUnavailable reports whether the server is the reason of err, and not the statement.
// Another attempt can succeed. Such errors have the SQLSTATE classes 08, 25, 40, 53, 55,
// 57, 58 and XX. A prepared statement's name that the session lost counts as well.
func IsUnavailable(err *pgconn.PgError) bool {
	if isMisnamed(err) || fatal(err) {
		return true
	}
	if len(err.Code) < 2 {
		return true // no answer of a server that follows the protocol
	}
	switch err.Code[:2] {
	case "08", "25", "40", "53", "55", "57", "58", "XX":
		return true
	default:
		return false
	}
}

const (
	conflictTries = 3
	conflictPause = 20 * time.Millisecond
)

// RetryConflict calls try again after a serialization failure or deadlock, at most 3 times in all.
// It waits in between for a random time of at most 20 ms, then 40 ms. After such a failure try must
// leave nothing behind. It returns the last error; if ctx ends in a pause, too.
func RetryConflict[T any](ctx context.Context, try func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		if value, err := try(); !AgainAfterConflict(ctx, n, err) {
			return value, err
		}
	}
}

// AgainAfterConflict reports whether an operation whose nth try failed with err is to be tried again, by
// the rule of [RetryConflict]. It blocks for the pause. It is for values that are too large to be handed
// through functions.
func AgainAfterConflict(ctx context.Context, n int, err error) bool {
	if err == nil || n >= conflictTries || Classify(err) != FailureConflict {
		return false
	}
	return pause(ctx, rand.N(time.Duration(n)*conflictPause))
}

// lockPause is how long [RetryLocked] waits on average before it tries again.
const lockPause = 40 * time.Millisecond

// RetryLocked calls try again as long as its error says that a row stayed locked, for at most
// within. It pauses for a random time of 20 to 60 ms in between. In a pause it holds no connection.
// So try should wait only a few milliseconds for a lock, and must leave nothing behind when it
// fails like that. It returns the last error; if ctx ends in a pause, too. It tries at least once.
func RetryLocked[T any](ctx context.Context, within time.Duration, try func() (T, error)) (T, error) {
	for wait := WaitForLock(within); ; {
		if value, err := try(); !wait.Again(ctx, err) {
			return value, err
		}
	}
}

// A LockWait is the rule of [RetryLocked] for a loop of the caller's: for values that are too large to be
// handed through functions. It is for one goroutine.
type LockWait struct {
	began  time.Time
	within time.Duration
}

// WaitForLock returns a LockWait that begins now and lasts for within.
func WaitForLock(within time.Duration) LockWait { return LockWait{time.Now(), within} }

// Again reports whether a try that failed with err is to be repeated. It blocks for the pause.
func (w LockWait) Again(ctx context.Context, err error) bool {
	if err == nil || Classify(err) != FailureLockTimeout {
		return false
	}
	d := lockPause/2 + rand.N(lockPause)
	return time.Since(w.began)+d <= w.within && pause(ctx, d)
}

// pause reports whether ctx lasted for d.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
