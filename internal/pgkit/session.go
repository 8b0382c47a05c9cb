package pgkit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotPrepared: a pool's configuration did not go through [Prepare] before
// the pool was made.
var ErrNotPrepared = errors.New("pool not prepared: call Prepare on its configuration, or let Open make it")

// An ExecModeError says that a pool's DefaultQueryExecMode is one that this module cannot
// work with. It matches [ErrNotPrepared].
type ExecModeError struct{ Mode pgx.QueryExecMode }

func (e *ExecModeError) Error() string {
	return fmt.Sprintf("exec mode %q is not supported; the default works behind a pooler too", e.Mode)
}

// Is makes the error match [ErrNotPrepared].
func (e *ExecModeError) Is(target error) bool { return target == ErrNotPrepared }

// A session has the facts that [Prepare] makes a connection remember. Only the goroutine that uses
// the connection touches it, except for the atomic fields.
type session struct {
	// readCommitted: a statement outside a transaction block runs at READ
	// COMMITTED.
	readCommitted bool
	// role is the one that the connection began with, as current_setting('role') has it.
	role string
	// citus: the server is a coordinator or worker of Citus. A worker commits a statement at once
	// unless it is in a transaction block, whatever else was sent before the sync.
	citus bool
	// waitCanceled: since it was last reset, the server gave up waiting for a
	// standby to confirm a commit.
	waitCanceled bool
	// conflict: since it was last reset, a statement failed with 40001 or 40P01.
	conflict atomic.Bool
	// failed is the error of the statement that failed the open transaction.
	failed atomic.Pointer[pgconn.PgError]
	// writing: a write is running, or was running when the connection broke.
	writing atomic.Bool
	// named: statements may be prepared by name; names are those that were tried,
	// and whether the server took them.
	named bool
	names map[string]bool
	// misnamed: the server refused to use a name.
	misnamed bool
	// readOnly: since it was last reset, a statement was refused because the server takes
	// no writes.
	readOnly bool
	// refused: since it was last reset, the server answered with an error.
	refused bool

	// ask: the connection was idle for so long that it has to answer before it is used.
	ask bool
	// asked is when the connection was last known to work: when it was made, or asked.
	asked time.Time
	// address is that of the server, network is the connection to it, and made is its time. They do
	// not change once connected is set.
	address   string
	network   net.Conn
	made      time.Time
	connected atomic.Bool
	// givenUp: this side has given the connection up.
	givenUp atomic.Bool
	// failure is how the connection first failed: one of the constants below; 0: it did not.
	failure atomic.Uint32
	hosts   *hosts // of the pool
	// heard is when the server last sent something, in Unix nanoseconds.
	heard atomic.Int64
}

const (
	failureLost      = 1 // by the network or the server
	failureAbandoned = 2 // pgx closed it because the ctx of a statement ended
)

const sessionKey = "github.com/fanonce/fanonce/internal/pgkit"

func sessionOf(conn *pgconn.PgConn) *session {
	s, ok := conn.CustomData()[sessionKey].(*session)
	if !ok {
		s = new(session)
		conn.CustomData()[sessionKey] = s
	}
	return s
}

// Prepare makes connections of a pool with this configuration report the facts that a [Writer]
// needs. Call it after every other change to cfg. Existing hooks are still called, and a second
// call does nothing.
//
//   - OnNotice watches for the warning with which the server says that a commit
//     is visible but not confirmed by a standby. pgx reports no error then.
//   - OnPgError notes serialization failures and deadlocks, on whatever path a
//     statement took.
//   - AfterConnect asks for the default isolation level and for the server process
//     behind the connection, once per connection.
//   - BeforeConnect keeps pgx from sending a cancel request for a connection that
//     broke during a write: it would end the write's wait for a standby. It tries a
//     host that does not answer after the others.
//   - ConnectTimeout, if it is zero, becomes [DefaultConnectTimeout]. The kernel breaks a
//     TCP connection whose other end does not acknowledge for about ten seconds.
//   - ShouldPing and PrepareConn ask a connection that was idle, as pgxpool does, for at
//     most three seconds. If one does not answer, no older connection to that host is used
//     any more. The same holds after a [Writer] broke a connection.
//   - The exec mode, if it is pgx's default, becomes
//     [pgx.QueryExecModeCacheDescribe]: pgx's default uses named prepared
//     statements, which a pooler in transaction mode loses. This module's own
//     statements are prepared by name all the same where the server process is the one
//     that answered the connection, which a pooler is not. Another mode is a
//     choice: nothing is prepared by name then.
func Prepare(cfg *pgxpool.Config) {
	if Prepared(cfg) {
		return
	}
	conn := cfg.ConnConfig
	mayName := conn.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	if mayName {
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	conn.OnNotice = (&noticeWatch{conn.OnNotice}).hear
	conn.OnPgError = watchErrors(conn.OnPgError)
	watchConnections(cfg, new(hosts))
	cfg.AfterConnect = askSession(cfg.AfterConnect, mayName)
}

// CheckPool returns an error wrapping [ErrNotPrepared] unless the pool's configuration went through
// [Prepare]. It returns an [*ExecModeError] if the pool uses the simple protocol, the exec mode
// that this module cannot work with.
func CheckPool(pool *pgxpool.Pool) error {
	if pool == nil {
		return fmt.Errorf("%w: the pool is nil", ErrNotPrepared)
	}
	cfg := pool.Config()
	if !Prepared(cfg) {
		return ErrNotPrepared
	}
	if mode := cfg.ConnConfig.DefaultQueryExecMode; mode == pgx.QueryExecModeSimpleProtocol {
		return &ExecModeError{mode}
	}
	return nil
}

// Prepared reports whether cfg went through [Prepare], and its OnNotice was not changed since. It calls nothing of
// cfg: a configuration cannot be marked, but the method that Prepare makes the notice handler can be recognised.
func Prepared(cfg *pgxpool.Config) bool {
	if cfg == nil || cfg.ConnConfig == nil || cfg.ConnConfig.OnNotice == nil {
		return false
	}
	var ours pgconn.NoticeHandler = (*noticeWatch)(nil).hear
	return reflect.ValueOf(cfg.ConnConfig.OnNotice).Pointer() == reflect.ValueOf(ours).Pointer()
}

// A noticeWatch looks for the warning of [waitCanceled], and passes every notice on.
type noticeWatch struct{ next pgconn.NoticeHandler } // nil: to nobody

func (w *noticeWatch) hear(conn *pgconn.PgConn, n *pgconn.Notice) {
	if waitCanceled(n) {
		sessionOf(conn).waitCanceled = true
	}
	if w.next != nil {
		w.next(conn, n)
	}
}

// waitCanceled reports that n is the warning that a commit was not confirmed by a
// standby. Other warnings share its code, and its text may be translated. The
// server names the function that gave it. Related servers and proxies may leave the
// name out: then every warning without a code of its own counts. So does every such warning
// that a worker of Citus gave, and the warning that a worker's commit failed.
func waitCanceled(n *pgconn.Notice) bool {
	if n.Code != "01000" {
		return false
	}
	switch n.Routine {
	case "SyncRepWaitForLSN", "", "DefaultCitusNoticeReceiver", "FinishRemoteTransactionCommit":
		return true
	default:
		return false
	}
}

// NeedsBlock reports whether several statements that are sent to conn together need a block around them to be one
// READ COMMITTED transaction. conn is of a pool that went through [Prepare].
func NeedsBlock(conn *pgx.Conn) bool { return sessionOf(conn.PgConn()).needsBlock() }

// FirstRole returns the role that conn had when it was made; "none" means that of its login. conn is of
// a pool that went through [Prepare].
func FirstRole(conn *pgx.Conn) string { return sessionOf(conn.PgConn()).role }

// needsBlock reports whether several statements need a block around them to be one READ COMMITTED
// transaction.
func (s *session) needsBlock() bool { return !s.readCommitted || s.citus }

func watchErrors(next pgconn.PgErrorHandler) pgconn.PgErrorHandler {
	return func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if byCode[err.Code] == FailureConflict {
			sessionOf(conn).conflict.Store(true)
		}
		noteFailure(conn, err)
		sessionOf(conn).refused = true
		if byCode[err.Code] == FailureReadOnly {
			sessionOf(conn).readOnly = true
		}
		if isMisnamed(err) {
			sessionOf(conn).misnamed = true
		}
		if fatal(err) {
			sessionOf(conn).lose()
		}
		if next != nil {
			return next(conn, err)
		}
		return !fatal(err)
	}
}

// ReadsCommitted reports whether a transaction on conn that says no isolation level is
// at READ COMMITTED. conn is of a pool that went through [Prepare].
func ReadsCommitted(conn *pgx.Conn) bool { return sessionOf(conn.PgConn()).readCommitted }

// WatchConflicts forgets the serialization failures and deadlocks of conn so
// far, and the error that [TxFailure] returns. It returns a function that reports whether there was one since. Call
// that only while conn is still yours.
func WatchConflicts(conn *pgx.Conn) (conflict func() bool) {
	s := sessionOf(conn.PgConn())
	s.conflict.Store(false)
	s.failed.Store(nil)
	return s.conflict.Load
}

// IsAbandoned reports whether conn is closed because the ctx of a statement ended before the answer came. It is false
// if the connection broke before. conn is of a pool that went through [Prepare].
func IsAbandoned(conn *pgx.Conn) bool {
	return sessionOf(conn.PgConn()).failure.Load() == failureAbandoned
}

// lossLasts is how long commits are synchronous after a pool has lost a connection.
const lossLasts = 10 * time.Minute

// losses remember when a pool last lost a connection. A write may have crashed the server, and an
// asynchronous commit in front of it is forgotten with the crash. So it would not be known the next
// time. The pool's idle connections are lost too, so each process notices.
//
// It is safe for concurrent use.
type losses struct{ last atomic.Pointer[time.Time] } // nil: never

func (l *losses) note() {
	now := time.Now()
	l.last.Store(&now)
}

func (l *losses) lately() bool {
	last := l.last.Load()
	return last != nil && time.Since(*last) < lossLasts
}

// after reports whether a connection was lost after t.
func (l *losses) after(t time.Time) bool {
	last := l.last.Load()
	return last != nil && last.After(t)
}

// lostLately reports whether the pool of conn has lost a connection lately.
func lostLately(conn *pgx.Conn) bool {
	s := sessionOf(conn.PgConn())
	return s.hosts == nil || s.hosts.losses.lately()
}

// broke notes that the network connection failed with err. A connection that this side has given up
// is not lost: it is closed, or pgx made its reads fail because a statement's ctx ended.
func (s *session) broke(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.failure.CompareAndSwap(0, failureAbandoned)
		s.givenUp.Store(true)
	case errors.Is(err, net.ErrClosed):
	default:
		s.lose()
	}
}

// lose notes that the connection was lost.
func (s *session) lose() {
	s.failure.CompareAndSwap(0, failureLost)
	if s.hosts != nil && s.connected.Load() && !s.givenUp.Load() {
		s.hosts.losses.note()
	}
}
