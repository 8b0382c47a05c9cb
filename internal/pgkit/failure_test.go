package pgkit_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func answer(severity, code string) error {
	return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: "übersetzt", SeverityUnlocalized: severity, Code: code})
}

// unsent is a connection error that says so itself.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

func TestClassify(t *testing.T) {
	t.Parallel()
	_, noServer := pgconn.Connect(t.Context(), "host=127.0.0.1 port=1")
	for _, tt := range []struct {
		name string
		err  error
		want pgkit.Failure
	}{
		{"none", nil, pgkit.FailureNone},
		{"serialization failure", answer("ERROR", "40001"), pgkit.FailureConflict},
		{"deadlock", answer("ERROR", "40P01"), pgkit.FailureConflict},
		{"lock timeout", answer("ERROR", "55P03"), pgkit.FailureLockTimeout},
		{"query canceled", answer("ERROR", "57014"), pgkit.FailureCanceled},
		{"too many connections", answer("FATAL", "53300"), pgkit.FailureTooManyConnections},
		{"read-only", answer("ERROR", "25006"), pgkit.FailureReadOnly},
		{"unique violation", answer("ERROR", "23505"), pgkit.FailureRefused},
		{"disk full", answer("ERROR", "53100"), pgkit.FailureRefused},
		{"shut down, perhaps after the commit", answer("FATAL", "57P01"), pgkit.FailureLost},
		{"crash", answer("PANIC", "XX000"), pgkit.FailureLost},
		{"old server, no untranslated severity", &pgconn.PgError{Severity: "FATAL", Code: "57P01"}, pgkit.FailureLost},
		{"not sent", unsent{io.EOF}, pgkit.FailureNotSent},
		{"no server", fmt.Errorf("wrapped: %w", noServer), pgkit.FailureNotSent},
		{"server starts up", fmt.Errorf("%w: %w", noServer, answer("FATAL", "57P03")), pgkit.FailureNotSent},
		{"no connection left", fmt.Errorf("%w: %w", noServer, answer("FATAL", "53300")), pgkit.FailureTooManyConnections},
		{"wrong arguments", fmt.Errorf("wrapped: %w", pgkit.ErrStatement), pgkit.FailureNotSent},
		{"refused by the writer", fmt.Errorf("wrapped: %w", pgkit.ErrBusy), pgkit.FailureNotSent},
		{"writer closed", pgkit.ErrClosed, pgkit.FailureNotSent},
		{"cut off", io.ErrUnexpectedEOF, pgkit.FailureLost},
		{"deadline on the way", context.DeadlineExceeded, pgkit.FailureLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := pgkit.Classify(tt.err); got != tt.want {
				t.Errorf("Classify(%v) = %d, want %d", tt.err, got, tt.want)
			}
		})
	}
}
