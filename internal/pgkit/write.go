package pgkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Row sends one statement as a transaction of its own, at READ COMMITTED, in
// one round trip. It returns the row that the statement returns, and false if it
// returns none. Errors are those of [Do].
func Row[T any](ctx context.Context, w *Writer, st Statement, scan pgx.RowToFunc[T]) (T, bool, error) {
	type found struct {
		row T
		ok  bool
	}
	f, err := Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (f found, err error) {
		err = sendAlone(ctx, conn, st, func(rows pgx.Rows) (err error) {
			f.row, err = pgx.CollectOneRow(rows, scan)
			return err
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return f, nil
		}
		f.ok = err == nil
		return f, err
	})
	return f.row, f.ok, err
}

// Rows is [Row] for a statement that returns any number of rows.
func Rows[T any](ctx context.Context, w *Writer, st Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (found []T, err error) {
		err = sendAlone(ctx, conn, st, func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, scan)
			return err
		})
		return found, err
	})
}

// RowsTogether sends statements in one round trip, as one READ COMMITTED transaction, and returns the rows of all of
// them in their order. The last row of one comes before the first of the next. Errors are those of [Do].
func RowsTogether[T any](ctx context.Context, w *Writer, statements []Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (found []T, err error) {
		parts := []part{{Statement{SQL: Hear}, func(rows pgx.Rows) error {
			found = nil // the statements may be sent again
			return skip(rows)
		}}}
		for _, st := range statements {
			parts = append(parts, part{st, func(rows pgx.Rows) error {
				got, err := pgx.CollectRows(rows, scan)
				found = append(found, got...)
				return err
			}})
		}
		err = sendTogether(ctx, conn, parts)
		return found, err
	})
}

// Exec is [Row] for a statement of which only the number of rows is wanted.
func Exec(ctx context.Context, w *Writer, st Statement) (int64, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (n int64, err error) {
		err = sendAlone(ctx, conn, st, func(rows pgx.Rows) error {
			rows.Close()
			n = rows.CommandTag().RowsAffected()
			return rows.Err()
		})
		return n, err
	})
}

// sendAlone sends st as a transaction of its own, at READ COMMITTED, and hears whether a standby
// confirmed it. read reads its rows.
func sendAlone(ctx context.Context, conn *pgx.Conn, st Statement, read func(pgx.Rows) error) error {
	if isWhole(conn, st) {
		return sendOne(ctx, conn, part{st, read})
	}
	return sendHearing(ctx, conn, part{st, read})
}

// isWhole reports whether st needs nothing of what [sendHearing] adds: it hears a standby's warning, and
// the session is at READ COMMITTED.
func isWhole(conn *pgx.Conn, st Statement) bool {
	return hears(st.SQL) && sessionOf(conn.PgConn()).readCommitted
}

// sendHearing sends a statement at READ COMMITTED, and [Hear] with it.
func sendHearing(ctx context.Context, conn *pgx.Conn, p part) error {
	empty := false
	err := sendTogether(ctx, conn, []part{{Statement{SQL: Hear}, skip}, {p.Statement, func(rows pgx.Rows) error {
		err := p.read(rows)
		if empty = errors.Is(err, pgx.ErrNoRows); empty { // else the batch ends before the commit is read
			return nil
		}
		return err
	}}})
	if err == nil && empty {
		return pgx.ErrNoRows
	}
	return err
}

// A part is one statement of several, with the function that reads its rows.
type part struct {
	Statement

	read func(pgx.Rows) error
}

func skip(rows pgx.Rows) error {
	rows.Close()
	return rows.Err()
}

// sendTogether sends the parts in one round trip, as one READ COMMITTED transaction. Without a block
// around them the server treats the statements before a sync as one transaction.
func sendTogether(ctx context.Context, conn *pgx.Conn, parts []part) error {
	return sendNamed(ctx, conn, parts, func() error { return sendUnnamed(ctx, conn, parts) })
}

// sendNamed calls send with the statements of the parts named, and again without names if the session has lost them.
func sendNamed(ctx context.Context, conn *pgx.Conn, parts []part, send func() error) error {
	statements := make([]string, len(parts))
	for i, p := range parts {
		if err := p.Err(); err != nil {
			return err
		}
		statements[i] = p.SQL
	}
	for tried := false; ; tried = true {
		err := Name(ctx, conn, statements...)
		if err == nil {
			err = send()
		}
		if tried || !mendNames(ctx, conn, &err) {
			return err
		}
	}
}

// sendUnnamed is sendTogether for statements that it does not name.
func sendUnnamed(ctx context.Context, conn *pgx.Conn, parts []part) error {
	block := sessionOf(conn.PgConn()).needsBlock()
	batch := new(pgx.Batch)
	if block {
		batch.Queue("begin isolation level read committed")
	}
	for _, setting := range settingsOf(parts) {
		batch.Queue(setting)
	}
	for _, p := range parts {
		batch.Queue(p.SQL, p.Args...).Query(p.read)
	}
	if block {
		batch.Queue("commit")
	}
	return closeBatch(conn.SendBatch(ctx, batch))
}

// settingsOf returns the settings of the first part that has any. The parts of one transaction have the
// same.
func settingsOf(parts []part) []string {
	for _, p := range parts {
		if len(p.settings) > 0 {
			return p.settings
		}
	}
	return nil
}

// closeBatch ends a batch whose last message commits it.
func closeBatch(results pgx.BatchResults) error {
	err := results.Close()
	if IsUnsent(err) {
		return Unsent(err)
	}
	return err
}

// IsUnsent reports whether err is of a batch that pgx gave up before it sent the sync, and with it the commit.
func IsUnsent(err error) bool {
	var unsent pgx.ErrPreprocessingBatch
	return errors.As(err, &unsent)
}

// Unsent marks the error of a write that came before its commit was sent: the error says that nothing became durable,
// also if it does not look like that.
func Unsent(err error) error { return &nothingChanged{err} }

// Tx runs body in a READ COMMITTED transaction and commits it. If body returns
// an error the transaction is rolled back, and Tx returns that error: nothing
// became durable. Other errors are those of [Do].
//
// body gets a ctx that does not end, and must not commit.
func Tx[T any](ctx context.Context, w *Writer, body func(context.Context, pgx.Tx) (T, error)) (T, error) {
	return txWith(ctx, w, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, body)
}

func txWith[T any](ctx context.Context, w *Writer, options pgx.TxOptions, body func(context.Context, pgx.Tx) (T, error)) (T, error) {
	return Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (T, error) {
		var none T
		tx, err := conn.BeginTx(ctx, options)
		if err != nil {
			return none, &nothingChanged{err}
		}
		value, err := body(ctx, tx)
		if err != nil {
			return none, &nothingChanged{err}
		}
		return value, Commit(ctx, conn)
	})
}

// A UserTx is a transaction that a user began, of pgx or of database/sql.
type UserTx interface {
	// Insert reports whether the statement changed one row.
	Insert(ctx context.Context, st Statement) (inserted bool, err error)
	// Read scans the one row that the statement returns, and reports whether there is one.
	Read(ctx context.Context, st Statement, scan func(row Scanner) error) (found bool, err error)
}

// A Scanner is a row, see [pgx.Row].
type Scanner interface{ Scan(into ...any) error }

// PgxTx is a [UserTx] of pgx.
type PgxTx struct{ Tx pgx.Tx }

// Insert implements [UserTx].
func (t PgxTx) Insert(ctx context.Context, st Statement) (bool, error) {
	tag, err := t.Tx.Exec(ctx, st.SQL, st.Args...)
	return tag.RowsAffected() == 1, err
}

// Read implements [UserTx].
func (t PgxTx) Read(ctx context.Context, st Statement, scan func(row Scanner) error) (bool, error) {
	return hasRow(scan(t.Tx.QueryRow(ctx, st.SQL, st.Args...)))
}

// SQLTx is a [UserTx] of database/sql, over pgx's driver.
type SQLTx struct{ Tx *sql.Tx }

// Insert implements [UserTx].
func (t SQLTx) Insert(ctx context.Context, st Statement) (bool, error) {
	result, err := t.Tx.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Read implements [UserTx].
func (t SQLTx) Read(ctx context.Context, st Statement, scan func(row Scanner) error) (bool, error) {
	return hasRow(scan(t.Tx.QueryRowContext(ctx, st.SQL, st.Args...)))
}

// hasRow reports whether there was a row.
func hasRow(err error) (bool, error) {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Hear has the server send the warning that a commit was not confirmed by a standby. Without it a
// session with client_min_messages = error gets no warning, and the warning is the only sign. An
// earlier user of the connection may have set that. The setting ends with the transaction.
const Hear = "select set_config('client_min_messages', 'warning', true)"

// hears reports whether a statement does the work of [Hear] by itself, or needs no warning: a
// commit that is not synchronous waits for no standby.
func hears(sql string) bool {
	return strings.Contains(sql, "set_config('client_min_messages', 'warning', true)") ||
		strings.Contains(sql, "set_config('synchronous_commit', 'off', true)")
}

// Commit commits the transaction that is open on conn, in one round trip, and hears whether
// a standby confirmed it. For a transaction that had failed before, Postgres answers COMMIT
// with ROLLBACK: the error then wraps [pgx.ErrTxCommitRollback].
func Commit(ctx context.Context, conn *pgx.Conn) error {
	if conn.PgConn().TxStatus() == 'E' {
		_, err := conn.Exec(ctx, "rollback")
		return &nothingChanged{errors.Join(pgx.ErrTxCommitRollback, err)}
	}
	results := conn.PgConn().Exec(ctx, "set local client_min_messages = warning; commit")
	var last pgconn.CommandTag
	for results.NextResult() {
		last, _ = results.ResultReader().Close() // Close returns the error
	}
	err := results.Close()
	if err == nil && last.String() != "COMMIT" {
		return &nothingChanged{pgx.ErrTxCommitRollback}
	}
	return err
}

// SendBatch sends the queries of batch in one round trip, as one READ COMMITTED transaction: all of
// it becomes durable, or nothing. A query that may commit by itself, such as a procedure, needs block: the server
// then refuses its COMMIT, and rolls everything back. The queries must not end the transaction as statements of
// their own. The batch itself is not used up. SendBatch calls its functions
// with the results, in the caller's goroutine, possibly before the commit has succeeded. The commit
// was sent by then: a function cannot prevent it, and the error of a function leaves the fate
// unknown. Errors are those of [Do].
func SendBatch(ctx context.Context, w *Writer, batch *pgx.Batch, block bool) error {
	conn, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	c := &calls{ended: make(chan error, 1), left: make(chan struct{})}
	if !stays(ctx) {
		c.next = make(chan *call)
	}
	defer close(c.left)
	_, err = finish(ctx, w, conn, c.next, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		if err := NameQueries(ctx, conn, batch.QueuedQueries); err != nil {
			return struct{}{}, err
		}
		if err := Name(ctx, conn, Hear); err != nil {
			return struct{}{}, &nothingChanged{err}
		}
		s := sessionOf(conn.PgConn())
		s.refused = false
		copied := new(pgx.Batch)
		block := block || s.needsBlock()
		if block {
			copied.Queue("begin isolation level read committed")
		}
		for _, q := range batch.QueuedQueries {
			copied.Queue(q.SQL, q.Arguments...).Fn = c.wrapFunc(s, q.Fn)
		}
		copied.Queue(Hear) // whatever the queries set
		if block {
			copied.Queue("commit")
		}
		return struct{}{}, closeBatch(conn.SendBatch(ctx, copied))
	})
	return err
}

// calls take the functions of a batch to the goroutine of its caller, one after the other.
type calls struct {
	next  chan *call // nil if that goroutine sends the batch itself
	ended chan error // of size 1
	left  chan struct{}
}

// errLeft ends the functions of a batch whose caller has gone.
var errLeft = errors.New("the caller has left")

// wrapFunc returns a function that gets the result of a query, and has fn called with it. The error of
// fn must not be taken for the server's: the server commits the batch although fn returns an error.
func (c *calls) wrapFunc(s *session, fn func(pgx.BatchResults) error) func(pgx.BatchResults) error {
	if fn == nil {
		return nil
	}
	return func(results pgx.BatchResults) error {
		rows, err := results.Query()
		err = c.make(&call{fn, result{results, rows, err}, c.ended})
		if err != nil && !s.refused {
			return fmt.Errorf("%w: a function of the batch: %w", ErrFateUnknown, err)
		}
		return err
	}
}

// make returns the error of the function, or errLeft if it panics or its caller has gone.
func (c *calls) make(next *call) error {
	if c.next == nil {
		return next.fn(&next.result)
	}
	select {
	case c.next <- next:
		return <-c.ended
	case <-c.left:
		return errLeft
	}
}

// A call is one of calls.
type call struct {
	fn     func(pgx.BatchResults) error
	result result
	ended  chan error
}

func (c *call) make() {
	err := errLeft // a panic takes the caller away
	defer func() { c.ended <- err }()
	err = c.fn(&c.result)
}

// A result is a query's, for its function.
type result struct {
	pgx.BatchResults

	rows pgx.Rows
	err  error
}

func (r *result) Query() (pgx.Rows, error) { return r.rows, r.err }

func (r *result) Exec() (pgconn.CommandTag, error) {
	r.rows.Close()
	return r.rows.CommandTag(), r.rows.Err()
}

func (r *result) QueryRow() pgx.Row { return r }

// Scan implements [pgx.Row].
func (r *result) Scan(into ...any) error {
	_, err := pgx.CollectOneRow(r.rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(into...) })
	return err
}

type stayKey struct{}

// Staying returns ctx for writes whose caller waits for the end of the write once it was sent. The
// end of ctx then ends only the wait for a connection and for a flush. Such a write needs no
// goroutine of its own: only a caller that may leave needs one to leave behind.
func Staying(ctx context.Context) context.Context { return context.WithValue(ctx, stayKey{}, true) }

// stays reports whether the caller of a write with ctx waits for its end, because ctx is [Staying]
// or cannot end.
func stays(ctx context.Context) bool { return ctx.Done() == nil || ctx.Value(stayKey{}) != nil }

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

// ExecInBatches sends a statement that deletes at most batch rows until it deletes fewer. It returns
// how many it deleted, also with an error.
func ExecInBatches(ctx context.Context, w *Writer, st Statement, batch int64) (int, error) {
	total := 0
	for {
		n, err := RetryConflict(ctx, func() (int64, error) { return Exec(ctx, w, st) })
		total += int(n)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || n < batch {
			return total, err
		}
	}
}
