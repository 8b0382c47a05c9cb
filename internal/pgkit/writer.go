package pgkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrFateUnknown: a write was sent, and whether it is durable is not known.
	// It may become durable later.
	ErrFateUnknown = errors.New("fate of the write unknown")
	// ErrBusy: too many writes of this process are still waiting for their
	// fate; nothing was sent.
	ErrBusy = errors.New("too many writes of unknown fate")
	// ErrClosed: the [Writer] is closed; nothing was sent.
	ErrClosed = errors.New("closed: nothing was sent")
)

// A Writer sends writes whose fate matters.
//
// A running write is never canceled. Canceling the wait for a synchronous standby makes a commit
// visible although no standby has it, and pgx sends a cancel request when a ctx ends. So each write
// runs with a ctx that does not end. A caller whose own ctx ends leaves and gets [ErrFateUnknown].
// The write is then detached: it keeps its connection until the server answers. For that each write
// has a goroutine of its own, with two exceptions: the caller's ctx cannot end
// ([context.WithoutCancel]), or the caller stays anyway ([Staying]). Then the caller's goroutine
// sends the write, in less time.
//
// A detached write loses its connection after five seconds without a sign of the server, and at
// least a second after its caller left. The Writer closes the socket and sends no cancel request.
// So a server that vanished, or that acknowledges and never answers, does not keep connections, and
// connections to it that are idle are not tried. A server may accept new connections and not answer
// on these either, for example while it waits for a standby. Then the bound doubles with each loss,
// up to a minute, until a write is answered: the server still has a session for each connection
// that was closed.
//
// Every goroutine that a Writer starts ends before [Writer.Close] returns. It is
// safe for concurrent use.
type Writer struct {
	pool        *pgxpool.Pool
	maxDetached int
	answer      time.Duration // answerTimeout
	leftFor     time.Duration // leftTimeout

	// silent: a write lost its connection for want of an answer, and none was answered since.
	silent atomic.Bool

	mu       sync.Mutex
	closed   bool
	running  map[Held]*write
	detached int            // Those that are counted.
	flushes  int            // Detached flushes, which their combiner counts.
	patience time.Duration  // How long until a write loses its connection; 0 means answer.
	broke    time.Time      // When a write last lost its connection.
	changed  chan struct{}  // Closed, and made anew, where somebody may wait for fewer writes.
	ended    sync.WaitGroup // Every goroutine that was started.
}

// A write is a running write. The writer's lock guards the fields that change.
type write struct {
	conn  Held
	flush bool // its combiner bounds how many there are
	sent  time.Time
	left  bool        // no caller waits for it any more
	late  *time.Timer // which breaks its connection; nil: not yet
	// looked: its time is nearly up. The next look decides.
	looked bool
}

const (
	// answerTimeout is how long a write may be without an answer before its connection is broken,
	// and leftTimeout how long it must have been left. A server that answers later than that has a
	// trouble of its own. maxPatience bounds the doubled time.
	answerTimeout = 5 * time.Second
	leftTimeout   = time.Second
	maxPatience   = time.Minute
)

// admitTimeout is how long a write waits for a detached one to end. On a healthy
// server that takes a moment; a caller should soon hear of another one.
const admitTimeout = time.Second

// NewWriter returns a writer on pool that begins no write while maxDetached of
// them are detached: it waits a second, then refuses with [ErrBusy]. Zero means half
// of the pool's connections, and at least one: the rest stays for reads.
//
// It returns an error wrapping [ErrNotPrepared] if pool is not fit for it.
func NewWriter(pool *pgxpool.Pool, maxDetached int) (*Writer, error) {
	if err := CheckPool(pool); err != nil {
		return nil, err
	}
	if maxDetached < 0 {
		return nil, fmt.Errorf("maxDetached %d is negative", maxDetached)
	}
	if maxDetached == 0 {
		maxDetached = max(1, int(pool.Config().MaxConns)/2)
	}
	w := &Writer{pool: pool, maxDetached: maxDetached, answer: answerTimeout, leftFor: leftTimeout, running: make(map[Held]*write), changed: make(chan struct{})}
	return w, nil
}

// Do runs write on a connection of its own. The ctx that write gets has the values of ctx but does
// not end. The changes of write count as durable if write returned nil and the server did not say
// otherwise.
//
// Do returns ctx's error, [ErrBusy] or [ErrClosed] if nothing was sent. It returns the error of
// write if that error proves that nothing became durable, because the server refused the write; see
// [Classify]. Otherwise it returns an error wrapping both [ErrFateUnknown] and the cause.
func Do[T any](ctx context.Context, w *Writer, write func(context.Context, *pgx.Conn) (T, error)) (T, error) {
	conn, err := w.acquire(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return Finish(ctx, w, conn, write)
}

func (w *Writer) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := w.Admit(ctx); err != nil {
		return nil, err
	}
	return Acquire(ctx, w.pool)
}

// Admit waits until few enough writes are detached, as each write does. Transactions that begin without the Writer and end
// through it call it. It returns ctx's error, [ErrBusy] or [ErrClosed].
func (w *Writer) Admit(ctx context.Context) error {
	var timeout <-chan time.Time // most writes do not need one
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.mu.Lock()
		closed, full, changed := w.closed, w.detached >= w.maxDetached, w.changed
		w.mu.Unlock()
		switch {
		case closed:
			return ErrClosed
		case !full:
			return nil
		case timeout == nil:
			timer := time.NewTimer(admitTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-timeout:
			return ErrBusy
		}
	}
}

// A Held connection belongs to its holder until Release. A [*pgxpool.Conn] is
// one. Its type must be comparable.
type Held interface {
	Conn() *pgx.Conn
	Release()
}

// Finish is [Do] on a connection that the caller holds, as for the end of a
// transaction that is open on it. The connection is released, whatever happens;
// a transaction that do leaves open is rolled back.
func Finish[T any](ctx context.Context, w *Writer, conn Held, do func(context.Context, *pgx.Conn) (T, error)) (T, error) {
	return finish(ctx, w, conn, nil, do)
}

// finish is Finish that also makes the calls which do asks for.
func finish[T any](ctx context.Context, w *Writer, conn Held, calls <-chan *call, do func(context.Context, *pgx.Conn) (T, error)) (T, error) {
	var value, none T
	if err := ctx.Err(); err != nil {
		conn.Release()
		return none, err
	}
	wr := &write{conn: conn}
	done := make(chan error, 1) // the writer never waits for a caller that left
	err := w.launch(ctx, wr, func(ctx context.Context, conn *pgx.Conn) (err error) {
		value, err = do(ctx, conn)
		return err
	}, func(err error) { done <- err })
	if err != nil {
		return none, err
	}
	if stays(ctx) {
		return value, <-done
	}
	for waits := true; waits; {
		select {
		case err := <-done:
			return value, err
		case call := <-calls:
			w.make(wr, call)
		case <-ctx.Done():
			waits = false
		}
	}
	if !w.detach(wr) {
		err := <-done
		return value, err
	}
	return none, fmt.Errorf("%w: %w", ErrFateUnknown, context.Cause(ctx))
}

// make makes a call in the goroutine of the write's caller, which a panic takes away.
func (w *Writer) make(wr *write, call *call) {
	returned := false
	defer func() {
		if !returned {
			w.detach(wr)
		}
	}()
	call.make()
	returned = true
}

// launch runs do, releases wr's connection, and calls done with the known fate of the write. It
// does so in a goroutine of its own, which a caller whose ctx ends can leave behind; see detach. If
// the caller stays, launch does so before it returns. If launch returns an error nothing was sent,
// the connection is released, and done is not called.
func (w *Writer) launch(ctx context.Context, wr *write, do func(context.Context, *pgx.Conn) error, done func(error)) error {
	if err := w.begin(wr); err != nil {
		wr.conn.Release()
		return err
	}
	if stays(ctx) { // two switches of goroutines take a sixth of a lone write's time
		w.runWrite(ctx, wr, do, done)
		return nil
	}
	go w.runWrite(ctx, wr, do, done)
	return nil
}

// runWrite runs do, and says what became of the write.
func (w *Writer) runWrite(ctx context.Context, wr *write, do func(context.Context, *pgx.Conn) error, done func(error)) {
	defer w.ended.Done()
	ctx, conn := context.WithoutCancel(ctx), wr.conn.Conn()
	returned := false
	defer func() {
		if !returned { // a panic, as of a user's tracer, which somebody may recover
			_ = conn.Close(ctx) // in the middle of whatever it was
			w.end(wr, false)
		}
	}()
	s := sessionOf(conn.PgConn())
	s.waitCanceled, s.readOnly = false, false
	s.writing.Store(true)
	open := !conn.IsClosed()
	err := s.settle(ctx, conn, open, do(ctx, conn))
	failure := Classify(err)
	if failure == FailureReadOnly {
		w.pool.Reset() // a new connection may find the new primary
	}
	returned = true
	w.end(wr, failure != FailureLost)
	done(err)
}

// settle makes conn fit for its next user after a write that returned err. It returns what is known about
// the fate of the write. open says that the connection was open before the write.
func (s *session) settle(ctx context.Context, conn *pgx.Conn, open bool, err error) error {
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		// Releasing it like this would close the connection.
		_, _ = conn.Exec(ctx, "rollback")
	}
	if s.misnamed && !conn.IsClosed() { // in a transaction, where it could not be sent again
		_ = unname(ctx, conn)
	}
	s.writing.Store(conn.IsClosed())
	var known *nothingChanged
	switch {
	case errors.As(err, &known):
		return known.cause
	case s.waitCanceled:
		return fmt.Errorf("%w: the wait for a standby was canceled", ErrFateUnknown)
	case Classify(err) == FailureLost, open && errors.Is(err, pgconn.ErrConnClosed):
		// If a connection breaks under a statement without arguments, such as COMMIT, pgx returns
		// the same error as for a statement that was never sent.
		return fmt.Errorf("%w: %w", ErrFateUnknown, err)
	}
	return err
}

// nothingChanged wraps an error that came before anything could become durable.
type nothingChanged struct{ cause error }

func (e *nothingChanged) Error() string { return e.cause.Error() }
func (e *nothingChanged) Unwrap() error { return e.cause }

func (w *Writer) begin(wr *write) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	wr.sent = time.Now()
	w.running[wr.conn] = wr
	w.ended.Add(1)
	return nil
}

// detach counts the write as one that its callers left, and reports false if it
// has ended meanwhile.
func (w *Writer) detach(wr *write) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[wr.conn] != wr {
		return false
	}
	if wr.left {
		return true
	}
	wr.left = true
	if wr.flush {
		w.flushes++
		return true
	}
	w.detached++
	w.breakLater(wr, w.leftFor)
	return true
}

// end releases wr's connection. answered says that the server said what became of the write.
func (w *Writer) end(wr *write, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, wr.conn)
	wr.conn.Release()
	if wr.late != nil {
		wr.late.Stop()
	}
	if answered {
		w.patience = 0
		w.silent.Store(false)
	}
	switch {
	case wr.left && wr.flush:
		w.flushes--
	case wr.left:
		w.detached--
	}
	if w.closed || (wr.left && !wr.flush) {
		w.announce()
	}
}

// overdue breaks the connection of a flush that has no answer in time, also where callers wait.
func (w *Writer) overdue(wr *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[wr.conn] == wr {
		w.breakLater(wr, 0)
	}
}

// breakLater breaks wr's connection when its time is up, and no earlier than in least. w.mu is held.
func (w *Writer) breakLater(wr *write, least time.Duration) {
	if wr.late != nil {
		return
	}
	patience := max(w.patience, w.answer)
	wr.late = time.AfterFunc(max(least, patience-w.lookAgain()-time.Since(wr.sent)), func() { w.breakNow(wr) })
}

// lookAgain is the time between the last two looks at a write without an answer. A process that
// stood still for longer than patience has just woken up at the first look: it may not have sent
// the statement, nor read the answer. At the second look both had time.
func (w *Writer) lookAgain() time.Duration { return w.answer / 5 }

// breakNow closes the socket of a write that has no answer. Its fate is unknown then, and no
// cancel request is sent: that would end the wait for a standby, and show what no standby has.
func (w *Writer) breakNow(wr *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[wr.conn] != wr {
		return
	}
	s := sessionOf(wr.conn.Conn().PgConn())
	quiet, enough := time.Since(time.Unix(0, s.heard.Load())), max(w.patience, w.answer)-w.lookAgain()
	if quiet < enough { // it has several round trips
		wr.looked = false
		wr.late.Reset(enough - quiet)
		return
	}
	if !wr.looked {
		wr.looked = true
		wr.late.Reset(w.lookAgain())
		return
	}
	if !w.broke.IsZero() && s.made.After(w.broke) {
		w.patience = min(2*max(w.patience, w.answer), maxPatience)
	}
	w.broke = time.Now()
	w.silent.Store(true)
	if s.hosts != nil {
		s.hosts.fell(s.address)
		s.hosts.losses.note()
	}
	s.hangUp()
}

// announce wakes the goroutines that wait for a change. w.mu is held.
func (w *Writer) announce() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Mend treats a connection whose transaction was rolled back without the Writer as the Writer
// treats it after its own writes. If the server takes no writes any more, the pool is made anew. If
// names were lost, conn goes on without names.
func (w *Writer) Mend(ctx context.Context, conn *pgx.Conn) {
	s := sessionOf(conn.PgConn())
	if s.readOnly {
		s.readOnly = false
		w.pool.Reset()
	}
	if s.misnamed && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
		_ = unname(ctx, conn)
	}
}

// Detached returns how many writes are detached at this moment, flushes of combiners among them.
func (w *Writer) Detached() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detached + w.flushes
}

// Close refuses further writes and waits for the running writes. When ctx ends it breaks their
// connections, without a cancel request, and waits for the little that is left. Every write has
// ended when it returns. It returns ctx's error if it had to break any. A second Close waits as
// well.
func (w *Writer) Close(ctx context.Context) error {
	defer w.ended.Wait()
	w.mu.Lock()
	w.closed = true
	w.announce()
	w.mu.Unlock()
	if w.wait(ctx) {
		return nil
	}
	w.mu.Lock()
	for conn := range w.running {
		sessionOf(conn.Conn().PgConn()).hangUp()
	}
	w.mu.Unlock()
	w.wait(context.WithoutCancel(ctx))
	return ctx.Err()
}

// wait returns true once no write is running, and false if ctx ends first.
func (w *Writer) wait(ctx context.Context) bool {
	for {
		w.mu.Lock()
		running, changed := len(w.running), w.changed
		w.mu.Unlock()
		if running == 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
