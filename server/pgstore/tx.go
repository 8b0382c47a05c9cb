package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	verdict error // Err returns it once the transaction has ended, or could not begin.
	// left is set if the handler sent the end of the transaction itself. The status of the connection may not show it.
	left  atomic.Bool
	sql   sqlView // The view that SQLTx made of it, if SQLTx was called.
	queue queue   // Statements for the last round trip.
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

// watchFor notices a statement of the handler that ends the transaction. It cannot be stopped from outside of pgx, but
// the run must not count as committed with its rows.
func (t *tx) watchFor(sql string) {
	if pgkit.EndsTransaction(sql) {
		t.left.Store(true)
	}
}

// Cancel implements [store.Tx].
func (t *tx) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	inside := &handlerTx{root: t, refuse: ErrTxOwned}
	var asPool []pgkit.Statement
	if !t.isIdle() { // else the handler has set nothing
		if conn := inside.Conn(); conn != nil {
			asPool = t.store.asPool(conn)
		}
	}
	b, err := t.store.cancel(ctx, inside, req, asPool)
	if errors.Is(err, ErrTxEnded) {
		return store.Record{}, false, err
	}
	return b.record, b.existed, wrap("cancel", conflict(toInProgress(err)))
}

// Rollback implements [store.Tx]. It does not stop where ctx ends: a connection
// that still is in a transaction is of no use to others.
func (t *tx) Rollback(ctx context.Context) error {
	if stage, ok := t.end(); !ok || stage != stageBegun {
		return nil
	}
	defer t.conn.Release()
	if t.conn.Conn().IsClosed() {
		return nil // the server rolls back, and Err says why
	}
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
	if from == stageBegun && t.sql.isUsed() {
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
	if err := errors.Join(end.Check(), t.committable()); err != nil {
		if errors.Is(err, ErrTxEnded) {
			return ErrTxEnded
		}
		return errors.Join(err, t.Rollback(ctx))
	}
	stage, ok := t.end()
	if !ok {
		return ErrTxEnded
	}
	err := t.judge(t.settle(ctx, stage, o, end))
	if errors.Is(err, store.ErrLeaseLost) {
		return err
	}
	return wrap("settle", err)
}

// judge returns the error of the last round trip, and keeps a conflict for Err.
func (t *tx) judge(err error) error {
	if err = conflict(err); errors.Is(err, store.ErrConflict) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.verdict = store.ErrConflict
	}
	return err
}

// Commit implements [store.Tx]: the queued statements and COMMIT, in one round trip. A transaction that was never used
// sends nothing. A [*store.TxError] is as that of Settle.
func (t *tx) Commit(ctx context.Context) error {
	err := t.store.db.Writer.Admit(ctx) // a guarded run was admitted with its claim
	if err == nil {
		err = t.commit(ctx)
	}
	if errors.Is(err, ErrTxEnded) {
		return ErrTxEnded
	}
	return wrap("commit", errors.Join(err, t.Rollback(ctx)))
}

func (t *tx) settle(ctx context.Context, from stage, o store.Owner, end store.Settlement) error {
	queued := t.queue.close()
	if from != stageBegun && len(queued) == 0 {
		return t.store.settleUnused(ctx, o, end)
	}
	return t.finish(ctx, from, func(ctx context.Context, conn *pgx.Conn) (sent bool, err error) {
		return t.store.settleAndCommit(ctx, conn, settlement{o, end}, ending{begun: from == stageBegun, queued: queued})
	})
}

// finish sends the last round trip on the transaction's connection, or on another one if it has none, and releases it.
func (t *tx) finish(ctx context.Context, from stage, send func(context.Context, *pgx.Conn) (sent bool, err error)) error {
	var conn pgkit.Held = t.conn
	if from != stageBegun {
		pooled, err := t.store.db.Pool.Acquire(ctx) // not hold: the driver's connection costs more
		if err != nil {
			return err
		}
		conn = pooled
	}
	unsent := false
	_, err := pgkit.Finish(ctx, t.store.db.Writer, conn, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		sent, err := send(ctx, conn)
		unsent = !sent && conn.IsClosed()
		return struct{}{}, err
	})
	if errors.Is(err, pgkit.ErrFateUnknown) { // the write may still be running
		return err
	}
	if unsent || pgconn.SafeToRetry(err) && ctx.Err() == nil {
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

// A stage is how far a transaction has come.
type stage uint8

const (
	// stageIdle: nothing was sent, and no connection is held. Many handlers look
	// something up elsewhere first, and some never touch their transaction.
	stageIdle stage = iota
	// stageBeginning: somebody takes a connection and sends BEGIN.
	stageBeginning
	stageBegun
	// stageFailed: BEGIN, or the statement that was sent with it, did not get through. No
	// transaction exists, and none will follow.
	stageFailed
)

// A beginning is a transaction's way to its BEGIN, which goes with the first statement. That saves a
// round trip, and a handler that never uses its transaction costs no connection. It is safe
// for concurrent use: a goroutine that a handler left running can be at its first statement while
// the run ends.
type beginning struct {
	mu       sync.Mutex
	stage    stage
	ended    bool
	conn     *held       // Set from stageBeginning on, except in stageFailed.
	tx       pgx.Tx      // Set from stageBegun on.
	conflict func() bool // The one of conn, while conn is ours.
	cause    error       // Why stageFailed was reached.
	unheld   bool        // In stageFailed: no connection was available.
	broke    bool        // In stageFailed: the connection broke.
	// In stageFailed: pgx closed the connection because the ctx of the statement ended.
	abandoned bool
	// unsendable is the error of a batch that pgx could not send. pgx then closed the connection.
	unsendable error
}

// open takes a connection and calls begin, which sends BEGIN. It does so once. After a failed BEGIN
// the transaction has failed, as after a failed statement: a handler that ignores the error must
// not commit the rest.
func (t *tx) open(ctx context.Context, begin func(*pgx.Conn) (pgx.Tx, error)) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was tried
	}
	if err := t.depart(); err != nil {
		return err
	}
	conn, err := t.store.hold(ctx)
	if err == nil {
		err = t.keep(conn)
	}
	if err != nil {
		t.mu.Lock()
		t.unheld = true
		t.mu.Unlock()
		return t.arrive(nil, wrap("begin", err))
	}
	if err := t.store.nameSchema(ctx, conn.Conn()); err != nil {
		return t.arrive(nil, wrap("begin", err))
	}
	tx, err := begin(conn.Conn())
	return t.arrive(tx, err)
}

func (t *tx) depart() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return ErrTxEnded
	case t.stage != stageIdle:
		return ErrTxBusy
	}
	t.stage = stageBeginning
	return nil
}

// keep makes conn the transaction's, unless the run has ended meanwhile.
func (t *tx) keep(conn *held) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		conn.Release()
		return ErrTxEnded
	}
	t.conn, t.conflict = conn, pgkit.WatchConflicts(conn.Conn())
	return nil
}

// arrive ends what depart began. If the run ended meanwhile, its end left the connection to arrive.
func (t *tx) arrive(tx pgx.Tx, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.ended {
		err = ErrTxEnded
	}
	if err == nil {
		t.stage, t.tx = stageBegun, tx
		return nil
	}
	t.stage, t.cause = stageFailed, err
	if t.conn != nil {
		if t.conflict() {
			t.verdict = store.ErrConflict
		}
		t.broke = t.conn.Conn().IsClosed()
		t.abandoned = t.broke && pgkit.IsAbandoned(t.conn.Conn())
		t.conn.Release() // which closes it if it is in a transaction
		t.conn = nil
	}
	return err
}

// isIdle reports whether the next statement is the first.
func (t *tx) isIdle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage == stageIdle && !t.ended
}

func (t *tx) hasEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// current is the transaction for a statement that cannot travel with BEGIN, and
// begins it if that is due.
func (t *tx) current(ctx context.Context) pgx.Tx {
	if t.isIdle() {
		if err := t.open(ctx, t.begin(ctx)); err != nil {
			return pgkit.RefusedTx{Err: err}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		// A goroutine that outlived its run: the connection may belong to
		// another one by now.
		return pgkit.RefusedTx{Err: ErrTxEnded}
	case t.stage == stageBegun:
		return t.tx
	case t.stage == stageFailed:
		return pgkit.RefusedTx{Err: t.failure()}
	default:
		return pgkit.RefusedTx{Err: ErrTxBusy}
	}
}

// failure is the error of a transaction that failed before it began. t.mu is held.
func (t *tx) failure() error { return fmt.Errorf("%w: %w", ErrTxFailed, t.cause) }

// options are those of BEGIN on conn. A level that conn has anyway is not said: at the
// end of a transaction that set something the server looks through all its settings.
func (s *Store) options(conn *pgx.Conn) pgx.TxOptions {
	level := s.cfg.Isolation
	if level == pgx.ReadCommitted && pgkit.ReadsCommitted(conn) {
		level = ""
	}
	return pgx.TxOptions{IsoLevel: level}
}

// begin sends BEGIN alone.
func (t *tx) begin(ctx context.Context) func(*pgx.Conn) (pgx.Tx, error) {
	return func(conn *pgx.Conn) (pgx.Tx, error) {
		tx, err := conn.BeginTx(ctx, t.store.options(conn))
		return tx, wrap("begin", err)
	}
}

// beginWith sends BEGIN and queries in one round trip, and returns the results of
// the queries.
func (t *tx) beginWith(ctx context.Context, queries ...*pgx.QueuedQuery) (results pgx.BatchResults, err error) {
	return results, t.open(ctx, func(conn *pgx.Conn) (pgx.Tx, error) {
		if err := pgkit.NameQueries(ctx, conn, queries); err != nil {
			return nil, err
		}
		batch := new(pgx.Batch)
		batch.BeginTx(t.store.options(conn))
		batch.QueuedQueries = append(batch.QueuedQueries, queries...)
		results = conn.SendBatch(ctx, batch)
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // says the same
			return nil, err
		}
		return results.Tx(), nil
	})
}

// beginQuery sends BEGIN and one statement in one round trip. The rows hold the result of the
// statement, as after a Query.
func (t *tx) beginQuery(ctx context.Context, sql string, args []any) (pgx.Rows, error) {
	results, err := t.beginWith(ctx, &pgx.QueuedQuery{SQL: sql, Arguments: args})
	var preparing pgx.ErrPreprocessingBatch
	if errors.As(err, &preparing) {
		err = preparing.Unwrap() // the handler sent no batch
	}
	if err != nil {
		return pgkit.RefusedRows{Refused: err}, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // says the same
	}
	return &firstRows{Rows: rows, batch: results}, err
}
