package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

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

// A beginning is a transaction's way to its BEGIN, which goes with the first statement. It is safe
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
	// unsendable is the error of a batch that pgx could not send. pgx then closed the connection.
	unsendable error
	// asked is the ctx of the last statement. If its time is over, pgx closed the
	// connection itself, and the connection was not lost.
	asked context.Context //nolint:containedctx // only its end is looked at
}

// open takes a connection and calls begin, which sends BEGIN. It does so once. After a failed BEGIN
// the transaction has failed, as after a failed statement: a handler that ignores the error must
// not commit the rest.
func (t *tx) open(ctx context.Context, begin func(*pgx.Conn) (pgx.Tx, error)) error {
	t.bound(ctx)
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
		t.conn.Release() // which closes it if it is in a transaction
		t.conn = nil
	}
	return err
}

// idle reports whether the next statement is the first.
func (t *tx) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage == stageIdle && !t.ended
}

func (t *tx) hasEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// bound remembers the ctx of a statement.
func (t *tx) bound(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = ctx
}

// current is the transaction for a statement that cannot travel with BEGIN, and
// begins it if that is due.
func (t *tx) current(ctx context.Context) pgx.Tx {
	if t.idle() {
		if err := t.open(ctx, t.begin(ctx)); err != nil {
			return refusedTx{err}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = ctx
	switch {
	case t.ended:
		// A goroutine that outlived its run: the connection may belong to
		// another one by now.
		return refusedTx{ErrTxEnded}
	case t.stage == stageBegun:
		return t.tx
	case t.stage == stageFailed:
		return refusedTx{t.failure()}
	default:
		return refusedTx{ErrTxBusy}
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
		return refusedRows{err}, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // says the same
	}
	return &firstRows{Rows: rows, batch: results}, err
}
