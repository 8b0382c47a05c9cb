package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server/store"
)

// OnComplete makes fn part of the completion of the Keyed run that ctx belongs to. After the
// handler has returned, fn runs in the transaction that records the answer. Both are committed or
// neither. It runs for every answer that is stored, and so for a 402 or a 422 too. Register fn once
// the answer is decided. If fn returns an error the run has failed. fn may run again after a
// conflict.
//
// It returns what [store.OnComplete] returns, as for a ctx of no run. It does
// not block.
func OnComplete(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return store.OnComplete(ctx, func(ctx context.Context) error { return fn(ctx, Tx(ctx)) })
}
