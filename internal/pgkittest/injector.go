package pgkittest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A faultKind is a way in which a round trip to the database fails.
type faultKind string

const (
	faultCut      faultKind = "the connection breaks before the server sees it"
	faultLost     faultKind = "it takes effect, and the answer is lost"
	faultConflict faultKind = "a serialization failure"
	faultCanceled faultKind = "the caller gives up at that moment"
)

var faultKinds = []faultKind{faultCut, faultLost, faultConflict, faultCanceled}

// errInjected is what a connection that was broken on purpose returns.
var errInjected = errors.New("injected: connection reset by peer")

// An Injector makes one round trip to the server fail: the one with the number that
// it is armed with, counted over all connections from then on. [Injector.EveryFault]
// tries each. The zero Injector is ready; it is safe for concurrent use.
type Injector struct {
	mu    sync.Mutex
	kind  faultKind
	left  int // round trips until the fault; 0: disarmed
	fired atomic.Bool
	// giveUp ends the caller's ctx.
	giveUp context.CancelFunc
}

// arm returns a ctx for the caller, which faultCanceled ends.
func (i *Injector) arm(ctx context.Context, kind faultKind, n int) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kind, i.left, i.giveUp = kind, n, cancel
	i.fired.Store(false)
	return ctx
}

// disarm reports whether the fault happened.
func (i *Injector) disarm() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = 0
	i.giveUp()
	return i.fired.Load()
}

// takeFault counts a round trip, and returns the fault that it is to have, if any.
func (i *Injector) takeFault() faultKind {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.left == 0 {
		return ""
	}
	if i.left--; i.left > 0 {
		return ""
	}
	i.fired.Store(true)
	if i.kind == faultCanceled {
		i.giveUp()
	}
	return i.kind
}

// Under makes the connections of a pool those that fail. It also caps them at four.
func (i *Injector) Under(cfg *pgxpool.Config) {
	cfg.MaxConns = 4
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &faultyConn{Conn: conn, injector: i}, nil
	}
}

// A faultyConn is a connection to the server. One Write of pgx is one round trip.
type faultyConn struct {
	net.Conn
	injector *Injector
	swallow  atomic.Bool
}

func (f *faultyConn) Write(b []byte) (int, error) {
	switch f.injector.takeFault() {
	case faultCut:
		_ = f.Close() // it is meant to break
		return 0, errInjected
	case faultLost:
		f.swallow.Store(true)
	case faultConflict:
		message, err := (&pgproto3.Query{String: "do $$ begin raise exception 'injected' using errcode = '40001'; end $$"}).Encode(nil)
		if err == nil {
			_, err = f.Conn.Write(message)
		}
		return len(b), err
	case faultCanceled:
	}
	return f.Conn.Write(b)
}

// Read returns what the server says, unless the answer is to be lost: then the
// connection breaks once the server has said all of it.
func (f *faultyConn) Read(b []byte) (int, error) {
	if !f.swallow.Load() {
		n, err := f.Conn.Read(b)
		if !f.swallow.Load() { // pgx reads in the background while it writes
			return n, err
		}
		f.untilReady(b[:n])
	} else {
		f.untilReady(nil)
	}
	_ = f.Close() // it is meant to break
	return 0, errInjected
}

// untilReady reads up to the message that ends a round trip.
func (f *faultyConn) untilReady(begun []byte) {
	_ = f.SetReadDeadline(time.Now().Add(10 * time.Second)) // whatever pgx set
	r := io.MultiReader(bytes.NewReader(bytes.Clone(begun)), f.Conn)
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil || head[0] == 'Z' {
			return
		}
	}
}

// EveryFault runs attempt with each kind of fault in each of its round trips, until attempt ends
// without reaching a fault. There are four kinds. The connection breaks before the server sees the
// round trip. Or the round trip takes effect and its answer is lost. Or the round trip gets a
// serialization failure. Or the caller's ctx ends at that moment. prepare runs before attempt and
// check after it, without a fault. The argument at names the fault and its place.
func (i *Injector) EveryFault(t *testing.T, prepare func(), attempt func(ctx context.Context), check func(t *testing.T, at string)) {
	t.Helper()
	for _, kind := range faultKinds {
		for n := 1; ; n++ {
			prepare()
			ctx := i.arm(t.Context(), kind, n)
			attempt(ctx)
			if !i.disarm() {
				if n == 1 {
					t.Fatalf("%s: never happened: this shows nothing", kind)
				}
				t.Logf("%s: in each of %d round trips", kind, n-1)
				break
			}
			check(t, fmt.Sprintf("%s, in round trip %d", kind, n))
			if n > 50 {
				t.Fatalf("%s: there is no end of round trips", kind)
			}
		}
	}
}
