package pgstore_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// levels remembers the highest level of a log.
type levels struct {
	mu   sync.Mutex
	most slog.Level
	any  bool
}

func (l *levels) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.any || r.Level > l.most {
		l.most, l.any = r.Level, true
	}
	return nil
}

func (l *levels) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *levels) WithGroup(string) slog.Handler      { return l }

func (l *levels) highest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.any {
		return ""
	}
	return l.most.String()
}

// deafness loses the answer to the next COMMIT, which the server carries out.
type deafness struct{ armed atomic.Bool }

func (d *deafness) under(cfg *pgxpool.Config) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &deafConn{Conn: conn, deafness: d}, err
	}
}

type deafConn struct {
	net.Conn

	*deafness
	deaf atomic.Bool
}

// execute is the message that makes the server carry a statement out. Without it the
// statement is only described.
var execute = []byte{'E', 0, 0, 0, 9, 0, 0, 0, 0, 0}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(b, []byte("commit")) && (b[0] == 'Q' || bytes.Contains(b, execute)) && c.armed.Swap(false) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.deaf.Load() { // the server has answered, and so it has committed
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
