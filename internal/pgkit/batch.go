package pgkit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SendBatch sends the queries of batch in one round trip, as one READ COMMITTED transaction: all of
// it becomes durable, or nothing. The batch itself is not used up. SendBatch calls its functions
// with the results, possibly before the commit has succeeded. The commit was sent by then: a
// function cannot prevent it, and the error of a function leaves the fate unknown. Another
// goroutine may call the functions, but never after SendBatch has returned. A panic in a function
// is raised again here. Errors are those of [Do].
func SendBatch(ctx context.Context, w *Writer, batch *pgx.Batch) error {
	f := new(functions)
	_, err := Do(ctx, w, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		if err := NameQueries(ctx, conn, batch.QueuedQueries); err != nil {
			return struct{}{}, err
		}
		if err := Name(ctx, conn, hear); err != nil {
			return struct{}{}, &nothingChanged{err}
		}
		s := sessionOf(conn.PgConn())
		s.refused = false
		copied := new(pgx.Batch)
		if s.needsBlock() {
			copied.Queue("begin isolation level read committed")
		}
		for _, q := range batch.QueuedQueries {
			copied.Queue(q.SQL, q.Arguments...).Fn = f.own(s, q.Fn)
		}
		copied.Queue(hear) // whatever the queries set
		if s.needsBlock() {
			copied.Queue("commit")
		}
		return struct{}{}, committed(conn.SendBatch(ctx, copied))
	})
	if crash := f.leave(); crash != nil {
		panic(crash) //nolint:forbidigo // it goes on where somebody can recover it
	}
	return err
}

// functions are the functions of a batch: the caller's own code, which the writer's goroutine
// calls.
type functions struct {
	mu    sync.Mutex // held while a function has its result
	left  bool       // the caller has
	crash *crash
}

// leave waits for a function that is at its result, and makes sure that no further function is
// called. It returns the panic of a function.
func (f *functions) leave() *crash {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = true
	return f.crash
}

// errLeft ends the functions of a batch whose caller has gone.
var errLeft = errors.New("the caller has left")

// own wraps fn so that its error is not taken for the server's: the server commits the batch
// although fn returns an error.
func (f *functions) own(s *session, fn func(pgx.BatchResults) error) func(pgx.BatchResults) error {
	if fn == nil {
		return nil
	}
	return func(results pgx.BatchResults) error {
		err := f.call(fn, results)
		if err != nil && !s.refused {
			return fmt.Errorf("%w: a function of the batch: %w", ErrFateUnknown, err)
		}
		return err
	}
}

func (f *functions) call(fn func(pgx.BatchResults) error, results pgx.BatchResults) (err error) {
	r := &result{BatchResults: results, of: f}
	defer func() {
		v := recover()
		if v != nil && !r.held { // before it had its result
			f.mu.Lock()
			r.held = true
		}
		if v != nil && v != errLeft { //nolint:errorlint // as it was raised
			f.crash = &crash{v, debug.Stack()}
			err = f.crash
		} else if v != nil {
			err = errLeft
		}
		if r.held {
			f.mu.Unlock()
		}
	}()
	return fn(r)
}

// A result is a query's, for its function. The function waits for it without being in
// anybody's way.
type result struct {
	pgx.BatchResults

	of   *functions
	held bool
}

// arrive goes on with the function, if its caller is still there.
func (r *result) arrive() {
	if r.held {
		return
	}
	r.of.mu.Lock()
	r.held = true
	if r.of.left {
		panic(errLeft) //nolint:forbidigo // past the function, to call
	}
}

func (r *result) Exec() (tag pgconn.CommandTag, err error) {
	tag, err = r.BatchResults.Exec()
	r.arrive()
	return tag, err
}

func (r *result) Query() (pgx.Rows, error) {
	rows, err := r.BatchResults.Query()
	r.arrive()
	return rows, err
}

func (r *result) QueryRow() pgx.Row {
	row := r.BatchResults.QueryRow()
	r.arrive()
	return row
}
