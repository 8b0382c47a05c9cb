package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// OnceFunc is [Once] with the transaction around it: it begins one, in the round
// trip that inserts the key, calls work, and commits. It reports false, and work was
// not called, where the key was used before for the same. Work that is known
// beforehand is done faster by [Store.SendOnce].
//
//	first, err := store.OnceFunc(ctx, request, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "insert into payout values ($1, $2)", to, cents)
//		return err
//	})
//
// The transaction is the store's own, at Config.Isolation, and so is the schema: that of req is not
// used. Work must not end the transaction by SQL of its own: if it ends the transaction and begins
// another, the key is lost. Its argument tx is as in a guarded run, and [Tx], or [SQLTx] for
// database/sql, finds it in work's ctx. Its Commit and Rollback return [ErrTxOwned], and after work
// every method returns [ErrTxEnded]. If work returns an error or panics everything is rolled back,
// the key too, and OnceFunc returns that error, or panics.
//
// A key that was used leaves an error in the server's log (unique_violation). Many such keys leave
// few errors: for a second after an error OnceFunc looks keys up first.
//
// ctx bounds all of it. Besides the errors of Once, OnceFunc returns [store.ErrFateUnknown] if the
// answer to COMMIT was lost, or ctx ended before the answer came. Call it again with the same
// request, and it finds out. An error that wraps [store.ErrConflict] is a serialization failure or
// deadlock: nothing happened, and it can be called again. [ErrTxFailed] and [ErrTxBusy] say what
// work left behind that a COMMIT would hide; then nothing is committed.
func (s *Store) OnceFunc(ctx context.Context, req OnceRequest, work func(ctx context.Context, tx pgx.Tx) error) (bool, error) {
	if work == nil {
		return false, fmt.Errorf("%w: no work", ErrArgument)
	}
	req.Schema = s.cfg.Schema
	p, err := prepare(&req)
	if err != nil {
		return false, err
	}
	if err := s.db.Writer.Admit(ctx); err != nil {
		return false, wrap("once", err)
	}
	if !s.repeats.lately() {
		first, _, err := s.runOnce(ctx, putOrFail(p), work)
		if first || err != nil {
			return first, err
		}
		s.repeats.note()
	}
	first, r, err := s.runOnce(ctx, putOrFind(p), work)
	if first || err != nil {
		return first, err
	}
	s.repeats.note()
	return false, s.confirmOnce(ctx, r, p)
}

// runOnce does the work in a transaction that put has begun with the key, and reports false
// where put found it used.
func (s *Store) runOnce(ctx context.Context, put putKey, work func(ctx context.Context, tx pgx.Tx) error) (bool, onceRecord, error) {
	t := &tx{store: s, runs: ctx}
	defer func() { _ = t.Rollback(ctx) }() // nothing, once it has ended; and the server does it where the connection broke
	inside := &handlerTx{root: t, refuse: ErrTxOwned}
	first, r, err := put(ctx, inside)
	if !first || err != nil {
		return false, r, t.blame(err)
	}
	if err := work(t.NewContext(ctx), inside); err != nil {
		return false, r, t.blame(err)
	}
	if err := t.commit(ctx); err != nil {
		return false, r, wrap("once", conflict(err))
	}
	return true, r, nil
}

// A putKey inserts a key as the first statement of tx. Where it was used it returns false, and
// tx may have failed.
type putKey func(ctx context.Context, tx pgx.Tx) (first bool, r onceRecord, err error)

// putOrFind returns the record that is in the way.
func putOrFind(p prepared) putKey {
	return func(ctx context.Context, tx pgx.Tx) (bool, onceRecord, error) {
		return once(ctx, pgkit.PgxTx{Tx: tx}, p)
	}
}

// putOrFail does not return the record, and is faster if there is none.
func putOrFail(p prepared) putKey {
	return func(ctx context.Context, tx pgx.Tx) (bool, onceRecord, error) {
		st := p.query.onceOrFail.Bind(p.args)
		if err := st.Err(); err != nil {
			return false, onceRecord{}, wrap("once", err)
		}
		_, err := tx.Exec(ctx, st.SQL, st.Args...)
		if errors.Is(onceError(err), ErrDuplicate) {
			return false, onceRecord{}, nil
		}
		return err == nil, onceRecord{}, wrap("once", err)
	}
}

// confirmOnce decides about a record in the way, which may be visible before a standby has
// confirmed it.
func (s *Store) confirmOnce(ctx context.Context, r onceRecord, p prepared) error {
	if err := r.refusal(p.fingerprint); err != nil {
		return err
	}
	if !r.synchronous && s.cfg.ConfirmReplays != ConfirmAlways {
		return nil
	}
	_, err := s.readPatiently(ctx, p.id)
	return wrap("once", err)
}

// blame names the conflict that err came from, whatever was made of it since.
func (t *tx) blame(err error) error {
	if err != nil && errors.Is(t.Err(), store.ErrConflict) && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

// commit commits the transaction without a settlement.
func (t *tx) commit(ctx context.Context) error {
	if err := t.committable(); err != nil {
		return err
	}
	if _, ok := t.end(); !ok {
		return ErrTxEnded
	}
	queued := t.queue.close()
	_, err := pgkit.Finish(ctx, t.store.db.Writer, t.conn, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		if len(queued) > 0 {
			return struct{}{}, commitQueued(ctx, conn, queued)
		}
		return struct{}{}, pgkit.Commit(ctx, conn)
	})
	return err
}

// commitQueued sends the queued statements and COMMIT, in one round trip.
func commitQueued(ctx context.Context, conn *pgx.Conn, queued []*pgx.QueuedQuery) error {
	if err := pgkit.NameQueries(ctx, conn, queued); err != nil {
		return unnamed(err)
	}
	batch := new(pgx.Batch)
	appendQueries(batch, queued)
	batch.Queue("set local client_min_messages = warning") // see [pgkit.Commit]
	batch.Queue("commit")
	results := conn.SendBatch(ctx, batch)
	err := execAll(results, len(queued)+1)
	if err != nil {
		_ = results.Close() // says the same
		return queuedRefused(err)
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("%w: COMMIT answered %s", ErrTxFailed, tag)
	}
	return commitRefused(err)
}
