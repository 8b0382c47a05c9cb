package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// rollbackTimeout bounds a rollback whose caller's time may be up. A connection
// that does not answer within it is given up, and the server rolls back.
const rollbackTimeout = 5 * time.Second

// tx is a transaction as the guard drives it.
type tx struct {
	beginning

	store   *Store
	verdict error   // Err returns it once the transaction has ended, or could not begin.
	sql     sqlView // The view that SQLTx made of it, if SQLTx was called.
	queue   queue   // Statements for the last round trip.
	// runs is for the methods without a ctx: a handler's Conn and LargeObjects.
	runs context.Context //nolint:containedctx // it is the run's
}

var _ store.Tx = (*tx)(nil)

// Begin implements [store.TxStore]. It sends nothing: the first statement takes a connection from
// the pool, and BEGIN with it. So a transaction that is never used costs nothing. It is the handler
// that notices an exhausted pool, or a server that is gone. The level is Config.Isolation.
func (s *Store) Begin(ctx context.Context) (store.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &tx{store: s, runs: ctx}, nil
}

// Cancel implements [store.Tx].
func (t *tx) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := checkLength("Keep", req.Keep); err != nil {
		return store.Record{}, false, err
	}
	b, err := t.store.cancel(ctx, &handlerTx{root: t, refuse: ErrTxOwned}, req)
	if errors.Is(err, ErrTxEnded) {
		return store.Record{}, false, err
	}
	return b.record, b.existed, wrap("cancel", conflict(beingDecided(err)))
}

// Rollback implements [store.Tx]. It does not stop where ctx ends: a connection
// that still is in a transaction is of no use to others.
func (t *tx) Rollback(ctx context.Context) error {
	if stage, ok := t.end(); !ok || stage != stageBegun {
		return nil
	}
	defer t.conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if t.conn.Conn().PgConn().IsBusy() {
		return wrap("rollback", t.conn.Conn().Close(ctx)) // rows left open: nothing else ends them
	}
	if t.conn.Conn().PgConn().TxStatus() == 'I' {
		return nil
	}
	err := t.tx.Rollback(ctx)
	t.store.db.Writer.Mend(ctx, t.conn.Conn())
	return wrap("rollback", err)
}

// end makes goroutines fail that the handler may have left running. It returns how far the
// transaction had come, and false if it had ended before. A goroutine that is at the first
// statement finds out, and gives up the connection.
func (t *tx) end() (stage, bool) {
	t.mu.Lock()
	ended := t.ended
	t.ended = true
	if !ended {
		t.verdict = t.diagnose()
		if t.stage == stageBeginning && t.conn != nil {
			_ = t.conn.Conn().PgConn().Conn().Close() // which its user notices at the next read
		}
	}
	stage := t.stage
	t.mu.Unlock()
	if !ended {
		t.queue.close()
		t.closeSQL(stage)
	}
	return stage, !ended
}

// leftRunning is how long the end of a run waits for a statement that its handler left
// running through database/sql, which lets no transaction end before.
const leftRunning = time.Second

func (t *tx) closeSQL(from stage) {
	if from == stageBegun && t.sql.used() {
		network := t.conn.Conn().PgConn().Conn()
		late := time.AfterFunc(leftRunning, func() { _ = network.Close() }) // which its user notices
		defer late.Stop()
	}
	t.sql.close()
}

// Settle implements [store.Tx]: the queued statements, the settlement and COMMIT, in one round trip. If the transaction
// was never used, the settlement is the same as that of any other run. If it has only queued statements, the round trip
// is a transaction by itself.
//
// A [*store.TxError] matches [ErrTxFailed], [ErrTxBusy] or [ErrTxOwned]: what the
// handler did to the transaction, or the COMMIT that was refused. No row is committed
// then, unless the handler itself sent a COMMIT.
func (t *tx) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := errors.Join(checkSettlement(end), t.committable()); err != nil {
		if errors.Is(err, ErrTxEnded) {
			return ErrTxEnded
		}
		return errors.Join(err, t.Rollback(ctx))
	}
	stage, ok := t.end()
	if !ok {
		return ErrTxEnded
	}
	err := conflict(t.settle(ctx, stage, o, end))
	if errors.Is(err, store.ErrConflict) {
		t.mu.Lock()
		t.verdict = store.ErrConflict
		t.mu.Unlock()
	}
	if errors.Is(err, store.ErrLeaseLost) {
		return err
	}
	return wrap("settle", err)
}

func (t *tx) settle(ctx context.Context, from stage, o store.Owner, end store.Settlement) error {
	queued := t.queue.close()
	if from == stageBegun {
		return t.finish(ctx, t.conn, settlement{o, end}, ending{begun: true, queued: queued})
	}
	if len(queued) == 0 {
		return t.store.settleUnused(ctx, o, end)
	}
	conn, err := t.store.take(ctx)
	if err != nil {
		return err
	}
	return t.finish(ctx, conn, settlement{o, end}, ending{queued: queued})
}

// finish sends the last round trip on conn, and releases it.
func (t *tx) finish(ctx context.Context, conn pgkit.Held, end settlement, e ending) error {
	unsent := false
	_, err := pgkit.Finish(ctx, t.store.db.Writer, conn, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		sent, err := t.store.settleAndCommit(ctx, conn, end, e)
		unsent = !sent && conn.IsClosed()
		return struct{}{}, err
	})
	if errors.Is(err, pgkit.ErrFateUnknown) { // the write may still be running
		return err
	}
	if unsent || pgconn.SafeToRetry(err) && ctx.Err() == nil {
		t.store.suspicion.raise()
		return fmt.Errorf("%w: %w", store.ErrTxLost, err)
	}
	return err
}

// settleUnused settles a run whose transaction was never begun.
func (s *Store) settleUnused(ctx context.Context, o store.Owner, end store.Settlement) error {
	ok, err := s.settleRow(ctx, o, end)
	if err == nil && !ok {
		return store.ErrLeaseLost
	}
	return err
}

// conflict gives a serialization failure or deadlock the server's name.
func conflict(err error) error {
	if pgkit.Classify(err) == pgkit.FailureConflict {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}
