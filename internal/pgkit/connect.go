package pgkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// DefaultConnectTimeout is how long a connection attempt to one host may take where the
	// configuration does not say it. It has room for a dozen round trips of 300 ms.
	DefaultConnectTimeout = 5 * time.Second

	// pingTimeout is how long a connection that was idle may take to answer before it is used.
	// The caller may have less time. If it had at least leastPing the server counts as silent.
	pingTimeout = 3 * time.Second
	leastPing   = time.Second

	// pingAfter is how long a connection must have been idle to be asked, as pgxpool has it.
	pingAfter = time.Second

	// cleanupTimeout bounds each step by which pgx takes leave of a connection that it gives up:
	// the cancel request, and the wait for the server's last words. The connection has its place
	// in the pool for as long.
	cleanupTimeout = time.Second
)

// watchConnections makes the pool's connections bounded where a server vanishes without a packet.
func watchConnections(cfg *pgxpool.Config, h *hosts) {
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = DefaultConnectTimeout
	}
	cfg.BeforeConnect = watchConnect(cfg.BeforeConnect, h)
	should := cfg.ShouldPing
	cfg.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		ask := p.IdleDuration > pingAfter
		if should != nil {
			ask = should(ctx, p)
		}
		sessionOf(p.Conn.PgConn()).ask = ask
		return false // it is done by PrepareConn, which can tell why a ping failed
	}
	next := cfg.PrepareConn
	//lint:ignore SA1019 a user's configuration may still have it, and pgxpool ignores it beside PrepareConn
	before := cfg.BeforeAcquire //nolint:staticcheck // the same for golangci-lint
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		switch {
		case !usable(ctx, conn, h):
			return false, nil
		case next != nil:
			return next(ctx, conn)
		case before != nil:
			return before(ctx, conn), nil
		}
		return true, nil
	}
}

// usable reports whether an idle connection may be used. One to a server that has not answered
// since is closed without a try. Each connection is asked once after the pool has lost another: the server may have
// restarted.
func usable(ctx context.Context, conn *pgx.Conn, h *hosts) bool {
	s := sessionOf(conn.PgConn())
	ask := s.ask || h.losses.after(s.asked)
	s.ask = false
	if h.lost(s.address, s.made) {
		s.hangUp()
		return false
	}
	if !ask {
		return true
	}
	began := time.Now()
	s.asked = began
	s.writing.Store(true) // a server that does not answer is not asked to cancel either
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := conn.Ping(bounded); err == nil {
		s.writing.Store(false)
		return true
	}
	if bounded.Err() != nil && time.Since(began) >= leastPing {
		h.fell(s.address)
		h.losses.note()
	}
	s.hangUp()
	return false
}

// errCancelForbidden goes nowhere: pgx tries to cancel in the background.
var errCancelForbidden = errors.New("no cancel request during a write")

// watchConnect gives the connection that is about to be made its session. pgx dials once more with
// the same function to send a cancel request. It sends a cancel request for every connection that
// it gives up.
func watchConnect(next func(context.Context, *pgx.ConnConfig) error, h *hosts) func(context.Context, *pgx.ConnConfig) error {
	return func(ctx context.Context, cfg *pgx.ConnConfig) error {
		if next != nil {
			if err := next(ctx, cfg); err != nil {
				return err
			}
		}
		h.reorder(cfg)
		s := &session{hosts: h}
		dial, look, after := cfg.DialFunc, cfg.LookupFunc, cfg.AfterConnect
		cfg.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
			addresses, err := look(ctx, host)
			if err == nil {
				h.noteAddresses(host, addresses)
			}
			return addresses, err
		}
		cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if s.connected.Load() {
				s.givenUp.Store(true) // pgx cancels nothing else
				return dialToCancel(ctx, s, h, func(ctx context.Context) (net.Conn, error) { return dial(ctx, network, address) })
			}
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			boundSilence(conn)
			s.address, s.network = address, conn
			return &connection{conn, s}, nil
		}
		cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			s.made = time.Now()
			s.asked = s.made
			s.connected.Store(true)
			h.noteAnswer(s.address)
			conn.CustomData()[sessionKey] = s
			if after != nil {
				return after(ctx, conn)
			}
			return nil
		}
		return nil
	}
}

// dialToCancel dials for a cancel request, which may fail.
func dialToCancel(ctx context.Context, s *session, h *hosts, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if s.writing.Load() || h.lost(s.address, s.made) {
		return nil, errCancelForbidden
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(cleanupTimeout))
}

// A connection is one to the server. pgx sets a deadline in the future to wait for the last words
// of a server whose connection it gives up. This deadline is made earlier.
type connection struct {
	net.Conn

	session *session
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.session.heard.Store(time.Now().UnixNano())
	}
	if err != nil {
		c.session.broke(err)
	}
	return n, err
}

func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.session.broke(err)
	}
	return n, err
}

func (c *connection) SetDeadline(t time.Time) error {
	if last := time.Now().Add(cleanupTimeout); t.After(last) {
		t = last
	}
	return c.Conn.SetDeadline(t)
}

// hangUp closes the network connection, and nothing is sent: no cancel request, no farewell. The user of the
// connection finds out at the next read. It does not block, and is safe for concurrent use.
func (s *session) hangUp() {
	if s.network != nil {
		_ = s.network.Close() // it may be closed already
	}
}

// askSession finds out how statements can be sent. A pooler gives its clients
// process numbers of its own making.
func askSession(next func(context.Context, *pgx.Conn) error, mayName bool) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		if next != nil {
			if err := next(ctx, conn); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, conn.Config().ConnectTimeout)
		defer cancel()
		var level string
		var process uint32
		s := sessionOf(conn.PgConn())
		const ask = `select current_setting('default_transaction_isolation'), pg_backend_pid(), current_setting('citus.shard_count', true) is not null,
			current_setting('role')`
		if err := conn.QueryRow(ctx, ask, pgx.QueryExecModeExec).Scan(&level, &process, &s.citus, &s.role); err != nil {
			return fmt.Errorf("ask a new session: %w", err)
		}
		registerArrays(conn.TypeMap())
		s.readCommitted = level == string(pgx.ReadCommitted)
		s.named = mayName && process == conn.PgConn().PID()
		return nil
	}
}

// hosts remembers which servers of a pool have stopped answering. An older connection to
// such a server is not used any more: each would cost a caller a timeout. A new connection
// tries the other servers first.
//
// It is safe for concurrent use.
type hosts struct {
	some   atomic.Bool // silent is not empty
	losses losses

	mu        sync.Mutex
	silent    map[string]silence  // by address
	addresses map[string][]string // of the hosts in the configuration, as they were last resolved
}

// A silence has the known facts about a server that did not answer.
type silence struct {
	since time.Time // connections that are older are given up
	down  bool      // no connection to it has been made since
}

// fell notes that a server did not answer on a connection.
func (h *hosts) fell(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent == nil {
		h.silent = make(map[string]silence)
	}
	h.silent[address] = silence{since: time.Now(), down: true}
	h.some.Store(true)
}

// noteAnswer notes that a connection to a server was made.
func (h *hosts) noteAnswer(address string) {
	if !h.some.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.silent[address]; ok {
		s.down = false
		h.silent[address] = s
	}
}

// lost reports whether a connection that was made at that time must be given up.
func (h *hosts) lost(address string, made time.Time) bool {
	if !h.some.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return made.Before(h.silent[address].since)
}

// noteAddresses notes the addresses of a host in the configuration.
func (h *hosts) noteAddresses(host string, addresses []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.addresses == nil {
		h.addresses = make(map[string][]string)
	}
	h.addresses[host] = addresses
}

// down reports whether a host of the configuration has an address that does not answer.
func (h *hosts) down(host string, port uint16) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.addresses[host], func(address string) bool {
		if _, _, err := net.SplitHostPort(address); err != nil { // a lookup may say the port as well
			address = net.JoinHostPort(address, strconv.Itoa(int(port)))
		}
		return h.silent[address].down
	})
}

// reorder puts the hosts that do not answer last in cfg. pgx tries them in turn, each for a
// whole connect timeout.
func (h *hosts) reorder(cfg *pgx.ConnConfig) {
	if len(cfg.Fallbacks) == 0 || !h.some.Load() {
		return
	}
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int {
		return order(h.down(a.Host, a.Port)) - order(h.down(b.Host, b.Port))
	})
	cfg.Host, cfg.Port, cfg.TLSConfig = all[0].Host, all[0].Port, all[0].TLSConfig
	cfg.Fallbacks = all[1:]
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// The bounds of a network that swallows packets, which the kernel keeps: it breaks a connection on
// which sent data, or probes, are not acknowledged. They find a host that has vanished, but not a
// host that acknowledges and never answers; see [Writer].
const (
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	userTimeout       = 10 * time.Second
)

// boundSilence makes the kernel notice that the other end of conn has vanished, as far as the
// platform can. It changes nothing where it cannot.
func boundSilence(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{ // one defence of several
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
	})
	setUserTimeout(tcp, userTimeout)
}
