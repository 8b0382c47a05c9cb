package pgkit

import (
	"errors"

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
