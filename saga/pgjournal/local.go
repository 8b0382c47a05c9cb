package pgjournal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// Local returns a function for [saga.StepFunc] that runs fn in a transaction on the journal's own database. The
// transaction also stores that the step was done, and its output. So fn's rows are committed once, however often the
// step is tried: a repeat returns the stored output, and does not call fn. Use it for rows of the service that runs the
// saga, such as the status of an order, instead of a call of the service to itself.
//
//	saga.StepFunc(b, "orders.paid", receipt, pgjournal.Local(j, markPaid)).
//		UndoFunc("orders.unpaid", pgjournal.UndoLocal(j, unmarkPaid))
//
// The journal j must be the one whose engine runs the saga, so the definition is made once j is open. If j or fn is
// nil Local returns nil, which [saga.Define] refuses.
//
// The transaction is at READ COMMITTED, on a connection of [Journal.Pool]. Steps use at most half of its connections
// at a time, so that writes of the journal find one. fn must change nothing but rows in tx: whatever else it does
// happens again if the transaction is rolled back. It can store another saga in it ([Start]). It must not end tx: Commit
// and Rollback return an error, and Begin makes a savepoint. The methods of tx fail once fn has returned. A
// search_path or role that fn sets for tx must still let the journal use its tables, or nothing is committed.
//
// What fn returns decides:
//
//   - Nil commits, unless a statement has failed that fn did not report, or rows are still open.
//   - [saga.Rejected] rolls back, and is stored: fn is not called again, and a repeat gets the same refusal. So is an
//     output that cannot be stored, which has [saga.ErrNoResult].
//   - [saga.NotSent] and [saga.Permanent] roll back, and mean what they say. So does an error of a call that fn made.
//   - Any other error rolls back. It is returned as [saga.NotSent], because nothing has happened: the step is tried
//     again, and is not undone if it fails in the end. So is the end of ctx before COMMIT is sent, and any trouble with the
//     server before it.
//   - A panic rolls back.
//
// If the answer to COMMIT is lost the error wraps [saga.ErrFateUnknown]. The next attempt finds out what happened, and
// so does the undo.
//
// Another transaction that runs the same call, such as that of an engine which lost its lease, is waited for until ctx
// ends. The output is kept until the saga is swept, of at most [journal.MaxResultBytes], and sealed by Config.Codec. So is
// the text of a refusal.
func Local[In, Out any](j *Journal, fn func(ctx context.Context, tx pgx.Tx, in In) (Out, error)) func(context.Context, saga.Call[In]) (Out, error) {
	if j == nil || fn == nil {
		return nil
	}
	return func(ctx context.Context, call saga.Call[In]) (out Out, err error) {
		output, err := j.runLocal(ctx, call.Key, func(tx pgx.Tx) ([]byte, error) {
			out, err := fn(ctx, tx, call.Input)
			if err != nil {
				return nil, err
			}
			return encodeOutput(out)
		})
		if err != nil {
			return out, err
		}
		return decodeOutput[Out](output)
	}
}

// UndoLocal returns a function for [saga.StepRef.UndoFunc] that undoes a step of [Local]. It runs fn in a transaction
// like that of Local, which also stores that the step was undone. So fn's rows are committed once, too.
//
// The argument out is the output of the step. It is nil if the step was never committed. UndoLocal stores that the step must
// not run before it calls fn, so a late copy of the call does nothing. fn may write rows for a step that never happened,
// too, and may return [saga.ErrNothingToUndo], which commits.
//
// Errors, panics, ctx and nil arguments are as for [Local], except that a [saga.Rejected] is not stored: a person can
// have the undo tried again. If fn of the step ended its transaction past tx, the error is [saga.Permanent].
func UndoLocal[In, Out any](j *Journal, fn func(ctx context.Context, tx pgx.Tx, in In, out *Out) error) func(context.Context, saga.UndoCall[In, Out]) error {
	if j == nil || fn == nil {
		return nil
	}
	return func(ctx context.Context, undo saga.UndoCall[In, Out]) error {
		return j.undoLocal(ctx, undo.Forward, func(tx pgx.Tx, output []byte) error {
			if output == nil {
				return fn(ctx, tx, undo.Input, nil)
			}
			out, err := decodeOutput[Out](output)
			if err != nil {
				return err
			}
			return fn(ctx, tx, undo.Input, &out)
		})
	}
}

// encodeOutput returns out as it is stored. What cannot be stored is refused: another attempt would fail like this one.
func encodeOutput(out any) ([]byte, error) {
	data, err := contract.Encode(out)
	if err == nil && len(data) > journal.MaxResultBytes {
		err = fmt.Errorf("%d bytes, at most %d", len(data), journal.MaxResultBytes)
	}
	if err != nil {
		return nil, saga.Rejected(fmt.Errorf("%w: %w", saga.ErrNoResult, err))
	}
	return data, nil
}

func decodeOutput[Out any](data []byte) (out Out, err error) {
	if err := contract.Decode(data, &out); err != nil {
		return out, wrap("local step", fmt.Errorf("%w: output: %w", journal.ErrCorrupt, err))
	}
	return out, nil
}
