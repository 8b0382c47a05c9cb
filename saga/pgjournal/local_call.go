package pgjournal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A localCall is the call of a local step, whose row in saga_local decides what happens: none, and the step may run;
// an output, and it was committed; a refusal, and it never will be.
type localCall struct {
	*Journal

	saga journal.ID
	key  childkey.Key // of the step's call, also in its undo
}

var (
	errLocalOutside = fmt.Errorf("%w: no engine calls the function", ErrArgument)
	errLocalGone    = errors.New("pgjournal: local step: this journal does not have the saga")
	errLocalUndone  = errors.New("pgjournal: local step: it was undone, and will never run")
	errLocalLeft    = errors.New("pgjournal: local step: its function ended the transaction itself, and what it wrote may be committed")
)

// localCall returns the call of the step that an engine runs with ctx.
func (j *Journal) localCall(ctx context.Context, key childkey.Key) (localCall, error) {
	in, _ := wire.FromContext(ctx)
	if in.Parent == [16]byte{} || key.IsZero() {
		return localCall{}, errLocalOutside
	}
	return localCall{j, in.Parent, key}, nil
}

// runLocal returns the output of the call. It calls fn in a transaction if no transaction with it was committed.
func (j *Journal) runLocal(ctx context.Context, key childkey.Key, fn func(tx pgx.Tx) ([]byte, error)) (output []byte, err error) {
	c, err := j.localCall(ctx, key)
	if err != nil {
		return nil, err
	}
	ran := false
	err = c.inTx(ctx, func(tx *pgkit.OwnedTx) error {
		begun, err := c.begin(ctx, tx)
		if err != nil || !begun {
			return err
		}
		ran = true
		if output, err = fn(tx.View()); err != nil {
			return err
		}
		return c.end(ctx, tx, output)
	})
	switch {
	case err == nil && ran:
		return output, nil
	case err == nil:
		return c.found(ctx)
	case isRejected(err):
		return c.refuse(ctx, err)
	}
	return nil, err
}

// undoLocal calls fn with the output of the call, or nil if it never runs, in a transaction that marks it as undone.
func (j *Journal) undoLocal(ctx context.Context, forward childkey.Key, fn func(tx pgx.Tx, output []byte) error) error {
	c, err := j.localCall(ctx, forward)
	if err != nil {
		return err
	}
	if _, err := c.bar(ctx, refusal{Text: errLocalUndone.Error()}); err != nil {
		return saga.NotSent(err)
	}
	var said error
	err = c.inTx(ctx, func(tx *pgkit.OwnedTx) error {
		var r localRow
		found, err := c.mark(ctx, tx, &r)
		if err != nil || !found { // it is undone already
			return err
		}
		if r.left() {
			return saga.Permanent(errLocalLeft)
		}
		output, err := c.sealer.open(r.output, kindOutput, c.saga, c.key.String())
		if err != nil {
			return wrap("undo of a local step", err)
		}
		if said = fn(tx.View(), output); errors.Is(said, saga.ErrNothingToUndo) {
			return nil // which succeeds
		}
		return said
	})
	if err == nil {
		return said
	}
	return err
}

// inTx runs body in a transaction, and commits it if body returns nil. Its error has the outcome for the engine.
func (c localCall) inTx(ctx context.Context, body func(tx *pgkit.OwnedTx) error) error {
	select {
	case c.locals <- struct{}{}:
		defer func() { <-c.locals }()
	case <-ctx.Done():
		return saga.NotSent(wrap("local step", context.Cause(ctx)))
	}
	tx, err := pgkit.BeginOwned(ctx, c.db.Writer)
	if err != nil {
		return saga.NotSent(wrap("local step", err))
	}
	defer tx.Rollback(ctx) // of a body that fails or panics
	err = body(tx)
	if tx.Left() {
		return saga.Permanent(errLocalLeft)
	}
	if err == nil {
		err = wrap("local step", tx.Commit(ctx))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrFateUnknown), errors.As(err, new(*retry.Error)):
		return err // unknown; or fn, or a call of it, says what it means
	}
	return saga.NotSent(err)
}

// begin stores the call, without an output yet. It reports false if there is a row for it.
func (c localCall) begin(ctx context.Context, tx *pgkit.OwnedTx) (bool, error) {
	return c.exec(ctx, tx, c.query.LocalBegin.Bind(c.args()))
}

// end stores the output, unless fn has left a transaction that cannot be committed.
func (c localCall) end(ctx context.Context, tx *pgkit.OwnedTx, output []byte) error {
	if err := tx.Check(); err != nil {
		return wrap("local step", err)
	}
	sealed, err := c.sealer.seal(output, kindOutput, c.saga, c.key.String())
	if err != nil {
		return wrap("local step", err)
	}
	args := c.args()
	args["output"] = sealed
	ended, err := c.exec(ctx, tx, c.query.LocalEnd.Bind(args))
	if err == nil && !ended {
		err = wrap("local step", pgkit.ErrTxOwned)
	}
	return err
}

func (c localCall) exec(ctx context.Context, tx *pgkit.OwnedTx, st pgkit.Statement) (bool, error) {
	if err := st.Err(); err != nil {
		return false, wrap("local step", err)
	}
	changed, err := tx.Tx().Insert(ctx, st)
	return changed, wrap("local step", err)
}

// mark marks the call as undone, and reads its row. It reports false if it was undone before.
func (c localCall) mark(ctx context.Context, tx *pgkit.OwnedTx, r *localRow) (bool, error) {
	st := c.query.LocalUndo.Bind(c.args())
	if err := st.Err(); err != nil {
		return false, wrap("undo of a local step", err)
	}
	found, err := tx.Tx().Read(ctx, st, func(row pgkit.Scanner) error { return row.Scan(&r.output, &r.refusal) })
	return found, wrap("undo of a local step", err)
}

// bar stores that the call never runs, unless it has a row. It reports whether it did.
func (c localCall) bar(ctx context.Context, because refusal) (bool, error) {
	plain, err := json.Marshal(because)
	if err != nil {
		return false, wrap("local step", err)
	}
	args := c.args()
	if args["refusal"], err = c.sealer.seal(plain, kindRefusal, c.saga, c.key.String()); err != nil {
		return false, wrap("local step", err)
	}
	args["lock_timeout"] = c.db.Briefly
	n, err := pgkit.RetryLocked(ctx, c.cfg.LockTimeout, func() (int64, error) {
		return pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, c.db.Writer, c.query.LocalBar.Bind(args)) })
	})
	return n == 1, wrap("local step", err)
}

// refuse stores the refusal of fn, whose transaction was rolled back, and returns what is stored for the call then:
// another attempt may have been faster.
func (c localCall) refuse(ctx context.Context, because error) ([]byte, error) {
	barred, err := c.bar(ctx, refusalOf(because))
	switch {
	case err != nil:
		return nil, err // unknown: until it is stored, a late copy of the call may run
	case barred:
		return nil, because
	}
	return c.found(ctx)
}

// A localRow is what is stored for a call.
type localRow struct {
	undone          bool
	output, refusal []byte // of which a row has one
}

// left reports whether the row was committed by the function of the step, which ended the transaction past its view.
func (r localRow) left() bool { return r.output == nil && r.refusal == nil }

// found returns the output that an earlier attempt stored, or why there is none.
func (c localCall) found(ctx context.Context) ([]byte, error) {
	r, err := pgkit.One(ctx, c.db.Pool, c.query.LocalRead.Bind(c.args()), func(row pgx.CollectableRow) (r localRow, err error) {
		return r, row.Scan(&r.undone, &r.output, &r.refusal)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errLocalGone
	case err != nil:
		return nil, wrap("local step", err)
	case r.left():
		return nil, saga.Permanent(errLocalLeft)
	case r.refusal != nil:
		return nil, c.refused(r)
	case r.undone:
		return nil, saga.Rejected(errLocalUndone)
	}
	output, err := c.sealer.open(r.output, kindOutput, c.saga, c.key.String())
	return output, wrap("local step", err)
}

func (c localCall) args() pgx.NamedArgs {
	return pgx.NamedArgs{"saga": toUUID(c.saga), "key": c.key.String()}
}

// A refusal is why a call never runs: what [saga.Rejected] keeps of the error of its function.
type refusal struct {
	Text   string    `json:"text"`
	Status int       `json:"status,omitempty"`
	Code   wire.Code `json:"code,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Body   []byte    `json:"body,omitempty"`
}

func refusalOf(err error) refusal {
	r := refusal{Text: err.Error()}
	var failed *retry.Error
	if !errors.As(err, &failed) {
		return r
	}
	if failed.Err != nil {
		r.Text = failed.Err.Error() // the rest is said again
	}
	r.Status, r.Code, r.Detail = failed.Status, failed.Code, failed.Detail
	if len(failed.Body) <= journal.MaxBodyBytes {
		r.Body = failed.Body
	}
	return r
}

// refused returns the stored refusal as the function returned it.
func (c localCall) refused(row localRow) error {
	plain, err := c.sealer.open(row.refusal, kindRefusal, c.saga, c.key.String())
	if err != nil {
		return wrap("local step", err)
	}
	var r refusal
	if err := json.Unmarshal(plain, &r); err != nil {
		return wrap("local step", fmt.Errorf("%w: refusal: %w", journal.ErrCorrupt, err))
	}
	return saga.Rejected(&r)
}

func (r *refusal) Error() string { return r.Text }

// Unwrap returns the answer of a service that the function returned, for what a saga keeps of it.
func (r *refusal) Unwrap() error {
	return &retry.Error{Outcome: retry.Rejected, Status: r.Status, Code: r.Code, Detail: r.Detail, Body: r.Body, Err: errors.New(r.Text)}
}

// isRejected reports whether err states that the step is refused, as [saga.Rejected] does.
func isRejected(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if said, ok := err.(interface{ Stated() (retry.Outcome, bool) }); ok { //nolint:errorlint // it is the loop of errors.As
			outcome, _ := said.Stated()
			return outcome == retry.Rejected
		}
	}
	return false
}
