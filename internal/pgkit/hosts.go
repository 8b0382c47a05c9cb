package pgkit

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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

// answered notes that a connection to a server was made.
func (h *hosts) answered(address string) {
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

// resolved notes the addresses of a host in the configuration.
func (h *hosts) resolved(host string, addresses []string) {
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
