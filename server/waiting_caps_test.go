package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
)

// tenant is the scope that a test's request names.
func tenant(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

// A waitingRoom counts, of the duplicates that it sends, those that waited until the
// run ended, and those that were answered at once.
type waitingRoom struct {
	t              *testing.T
	h              http.Handler
	waited, atOnce atomic.Int64
}

// run begins a run of each key, which ends after 4 s.
func (room *waitingRoom) run(tenant string, keys ...string) {
	for _, key := range keys {
		go send(room.h, key, "", "X-Tenant", tenant)
	}
	synctest.Wait()
}

// send sends a duplicate with a body of its own.
func (room *waitingRoom) send(tenant, key, body string) {
	go func() {
		start := time.Now()
		switch w := send(room.h, key, body, "X-Tenant", tenant); {
		case w.Code == http.StatusOK && time.Since(start) > 0:
			room.waited.Add(1)
		case time.Since(start) == 0:
			requireCode(room.t, w, wire.InProgress)
			room.atOnce.Add(1)
		}
	}()
	synctest.Wait()
}

func newWaitingRoom(t *testing.T, cfg server.Config) *waitingRoom {
	t.Helper()
	g, err := server.NewGuard(memstore.New(), tenant, cfg)
	require.NoError(t, err)
	h, err := g.Route(server.Route{
		Effect:      server.Keyed,
		Fingerprint: func(*http.Request, []byte) ([]byte, error) { return nil, nil }, // only the size of a body counts here
	}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(4 * time.Second) }))
	require.NoError(t, err)
	return &waitingRoom{t: t, h: h}
}

// A duplicate holds its body in memory while it waits. All of them take a quarter of the memory, and one scope a quarter of that.
func TestWait_bytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := newWaitingRoom(t, server.Config{MaxBufferedBytes: 1600, MaxRequestBytes: 100})
		room.run("a", "k", "l")
		room.send("a", "k", strings.Repeat("x", 60))
		room.send("a", "l", strings.Repeat("x", 41)) // one too many
		room.send("a", "l", strings.Repeat("x", 40))
		room.send("a", "k", "x")
		room.send("a", "k", "") // a body of no size always fits
		require.EqualValues(t, 2, room.atOnce.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, room.waited.Load())

		room.run("a", "m") // the room is empty again
		room.send("a", "m", strings.Repeat("x", 100))
		time.Sleep(time.Minute)
		require.EqualValues(t, 4, room.waited.Load())
	})
}

// One tenant with large bodies leaves the others the memory to wait with.
func TestWait_scopeTakesAQuarterOfTheBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		all, body     int64
		greedy, share int // duplicates with 10 bytes that a tenant sends, and how many wait
	}{
		{"a quarter", 400, 10, 20, 10},
		{"the body of one request", 100, 60, 20, 6},
		{"no more than there is", 100, 400, 20, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			room := newWaitingRoom(t, server.Config{MaxBufferedBytes: 4 * tt.all, MaxRequestBytes: tt.body})
			ten := strings.Repeat("x", 10)
			room.run("greedy", "k")
			for range tt.greedy {
				room.send("greedy", "k", ten)
			}
			require.EqualValues(t, tt.greedy-tt.share, room.atOnce.Load(), tt.name)
			waited := tt.share
			if int64(10*tt.share) < tt.all {
				room.run("modest", "k")
				room.send("modest", "k", ten)
				waited++
			}
			time.Sleep(time.Minute)
			require.EqualValues(t, waited, room.waited.Load(), tt.name)

			room.run("greedy", "again") // its memory is free again
			room.send("greedy", "again", ten)
			time.Sleep(time.Minute)
			require.EqualValues(t, waited+1, room.waited.Load(), tt.name)
		})
	}
}

// All callers of an unscoped guard share one scope.
func TestWait_unscopedTakesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{MaxWaiters: 16 * 20, MaxBufferedBytes: 320, MaxRequestBytes: 10})
		room := &waitingRoom{t: t, h: newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { time.Sleep(4 * time.Second) })}
		ten := strings.Repeat("x", 10)
		go send(room.h, "k", ten)
		synctest.Wait()
		for range 10 {
			room.send("", "k", ten)
		}
		require.EqualValues(t, 2, room.atOnce.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 8, room.waited.Load())
	})
}

// One tenant with many keys leaves the others their places.
func TestWait_scopeTakesAQuarter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ places, share int }{{80, 20}, {83, 20}, {4, 1}, {1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			room := newWaitingRoom(t, server.Config{MaxWaiters: tt.places})
			var keys []string
			for n := range 20 {
				keys = append(keys, fmt.Sprint("k-", n))
			}
			room.run("greedy", keys...)
			for n := range 100 {
				room.send("greedy", keys[n%20], "")
			}
			require.EqualValues(t, 100-tt.share, room.atOnce.Load(), "of %d places", tt.places)
			if tt.places > tt.share {
				room.run("modest", "k-0")
				room.send("modest", "k-0", "")
			}
			time.Sleep(time.Minute)
			require.EqualValues(t, min(tt.share+1, tt.places), room.waited.Load())

			room.run("greedy", "again") // its places are free again
			room.send("greedy", "again", "")
			time.Sleep(time.Minute)
			require.EqualValues(t, min(tt.share+1, tt.places)+1, room.waited.Load())
		})
	}
}

// A broker delivers again later: so its consumer does not wait for a run.
func TestWait_notInAnInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(t, newGuard(t, memstore.New(), server.Config{Wait: 10 * time.Second}), inbox.Config{Consumer: "mails", Effect: server.Keyed})
		go func() {
			_, _ = b.Handle(t.Context(), message, func(context.Context, []byte) error { time.Sleep(time.Minute); return nil })
		}()
		synctest.Wait()
		start := time.Now()
		delivery, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return errors.New("runs beside the first") })
		require.Equal(t, inbox.Busy, delivery.Result)
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.InProgress})
		require.Zero(t, time.Since(start))
		time.Sleep(time.Hour)
	})
}

// A function's duplicate waits as a route's does.
func TestWait_do(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ configured, task, want time.Duration }{
		{0, 0, 5 * time.Second}, {-1, 0, 0}, {0, -1, 0}, {2 * time.Second, 0, 2 * time.Second}, {-1, 3 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, memstore.New(), server.Config{Wait: tt.configured})
			task := payroll(server.Keyed)
			task.Wait = tt.task
			do := func() error {
				_, _, err := server.Do(t.Context(), g, task, key(t, "k"), 1, func(context.Context, int) (int, error) {
					time.Sleep(time.Minute)
					return 1, nil
				})
				return err
			}
			go func() { _ = do() }()
			synctest.Wait()
			start := time.Now()
			require.ErrorIs(t, do(), &server.RefusedError{Code: wire.InProgress})
			require.Equal(t, tt.want, time.Since(start))
			time.Sleep(time.Hour)
		})
	}
}

// The hint counts from the beginning of this run, not from the first claim of the key.
func TestWait_retryAfterOfARerun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		effect server.Effect
		end    func(w http.ResponseWriter)
	}{
		{"released", server.Keyed, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"panicked", server.Keyed, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	} {
		for _, elsewhere := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				first := true
				next := func(w http.ResponseWriter, _ *http.Request) {
					if first {
						first = false
						tt.end(w)
						return
					}
					time.Sleep(25 * time.Second)
				}
				h := newRoute(t, newGuard(t, store, server.Config{}), tt.effect, next)
				duplicate := h
				if elsewhere {
					duplicate = newRoute(t, newGuard(t, store, server.Config{}), tt.effect, next)
				}
				func() {
					defer func() { _ = recover() }()
					send(h, "k", "b")
				}()
				time.Sleep(time.Hour)
				go send(h, "k", "b")
				for _, at := range []struct {
					sleep time.Duration
					want  string
				}{{10 * time.Millisecond, "100"}, {490 * time.Millisecond, "500"}, {3500 * time.Millisecond, "4000"}} {
					time.Sleep(at.sleep)
					w := send(duplicate, "k", "b", wait(0)...)
					requireCode(t, w, wire.InProgress)
					require.Equal(t, at.want, w.Header().Get(wire.HeaderRetryAfterMs), "%s, in another process %t", tt.name, elsewhere)
				}
				time.Sleep(16 * time.Second) // past two renewals the hint is never longer than the run is old
				w := send(duplicate, "k", "b", wait(0)...)
				requireCode(t, w, wire.InProgress)
				hint, err := strconv.Atoi(w.Header().Get(wire.HeaderRetryAfterMs))
				require.NoError(t, err)
				require.LessOrEqual(t, hint, 20_000)
				time.Sleep(time.Hour)
			})
		}
	}
}
