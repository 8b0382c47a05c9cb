package pgkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// StatementLimit is how long the server may work for one statement of a change: most, but less than ctx lasts. The
// server then says that nothing changed before the end of ctx leaves the fate unknown.
func StatementLimit(ctx context.Context, most time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)*4/5)
	}
	return max(most, time.Millisecond)
}

// TxBounded is [Tx] with a limit for each statement that the server itself keeps, also if this process dies. It costs no
// round trip more. limit is rounded down to milliseconds, and the least is 1 ms. The error wraps [ErrTooSlow] if the limit
// is over: then nothing changed. The limit bounds the wait of COMMIT for a standby, too: that commit counts as unconfirmed.
func TxBounded[T any](ctx context.Context, w *Writer, limit time.Duration, body func(context.Context, pgx.Tx) (T, error)) (T, error) {
	const begin = "begin isolation level read committed; set local statement_timeout = %s"
	limit = max(limit, time.Millisecond)
	value, err := txWith(ctx, w, pgx.TxOptions{BeginQuery: fmt.Sprintf(begin, Milliseconds(limit))}, body)
	return value, TooSlow(err, limit)
}

// TooSlow returns err, wrapped with [ErrTooSlow] if the server ended a statement because of a limit, and nothing changed.
func TooSlow(err error, limit time.Duration) error {
	if err == nil || errors.Is(err, ErrFateUnknown) || Classify(err) != FailureCanceled {
		return err
	}
	return fmt.Errorf("%w: the limit is %v: %w", ErrTooSlow, limit, err)
}
