package pgstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A suspicion remembers that a transaction lost its connection. The pool's other
// connections may be broken too, as after a restart of the server: each is asked once
// before a transaction begins on it. A run is repeated only once, so its second
// connection must work. The zero suspicion is ready to use.
type suspicion struct{ since atomic.Int64 } // in nanoseconds; 0: never

// suspectTimeout is how long a connection has to answer. A healthy server takes a
// moment.
const suspectTimeout = time.Second

const checkedKey = "github.com/fanonce/fanonce/server/pgstore checked"

func (s *suspicion) raise() { s.since.Store(time.Now().UnixNano()) }

// clears reports whether conn of pool works, as far as is known. It blocks for a round
// trip if conn has not been asked since the last loss. The idle connections to a server
// that says nothing are given up together: one after the other would take too long.
func (s *suspicion) clears(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn) bool {
	since := s.since.Load()
	if since == 0 {
		return true
	}
	data := conn.PgConn().CustomData()
	if checked, ok := data[checkedKey].(int64); ok && checked > since {
		return true
	}
	ask, cancel := context.WithTimeout(ctx, suspectTimeout)
	defer cancel()
	began := time.Now().UnixNano()
	if conn.Ping(ask) != nil {
		if ask.Err() != nil && ctx.Err() == nil {
			pool.Reset()
		}
		return false
	}
	data[checkedKey] = began
	return true
}
