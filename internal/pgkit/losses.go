package pgkit

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

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
		s.givenUp.Store(true)
	case errors.Is(err, net.ErrClosed):
	default:
		s.lose()
	}
}

// lose notes that the connection was lost.
func (s *session) lose() {
	if s.hosts != nil && s.connected.Load() && !s.givenUp.Load() {
		s.hosts.losses.note()
	}
}
