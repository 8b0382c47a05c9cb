package pgkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrTooSlow: the server ended a bounded read, because its time was up or because a person canceled
// it. Nothing changed.
var ErrTooSlow = errors.New("the statement ran out of time")

// beginBounded makes a block in which each statement has a limit. JIT is off because compiling
// often takes longer than the statement.
const beginBounded = "begin isolation level read committed read only; set local statement_timeout = %s; set local jit = off"

// ReadBounded is [All] with a limit that the server itself keeps. So a person who looks cannot use
// the server for longer, even if this process dies. The limit counts for each statement by itself.
// It covers waits for locks, also while the server parses st. It does not cover the wait for a
// connection of the pool, which ctx ends.
//
// The settings before are sent first. All statements are in one read-only transaction block, so they
// work behind a pooler in transaction mode. The pool need not have gone through [Prepare].
//
// limit is rounded down to milliseconds, and the least is 1 ms. The error wraps [ErrTooSlow] if the
// limit is over.
func ReadBounded[T any](ctx context.Context, pool *pgxpool.Pool, limit time.Duration, st Statement, scan pgx.RowToFunc[T], before ...Statement) ([]T, error) {
	limit = max(limit, time.Millisecond)
	var found []T
	block := pgx.TxOptions{BeginQuery: fmt.Sprintf(beginBounded, Milliseconds(limit))}
	err := pgx.BeginTxFunc(ctx, pool, block, func(tx pgx.Tx) (err error) {
		for _, s := range before {
			if _, err := send(ctx, tx, s, func(rows pgx.Rows) (struct{}, error) { return struct{}{}, skip(rows) }); err != nil {
				return err
			}
		}
		found, err = look(ctx, tx, st, func(rows pgx.Rows) ([]T, error) { return pgx.CollectRows(rows, scan) })
		return err
	})
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() == nil && Classify(err) == FailureCanceled:
		return nil, fmt.Errorf("%w: the limit is %v: %w", ErrTooSlow, limit, err)
	}
	return nil, err
}
