package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A duplicate that waited for a failed run may then run itself. While it runs, its place is free for others.
func TestWait_placeOfTheNextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memstore.New(), server.Config{MaxWaiters: 1, MaxBufferedBytes: 16, MaxRequestBytes: 4})
		var runs atomic.Int64
		h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
			first := runs.Add(1) == 1
			time.Sleep(4 * time.Second)
			if first {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		room := &waitingRoom{t: t, h: h}
		go send(h, "k", "body")
		synctest.Wait()
		room.send("", "k", "body")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, runs.Load(), "the waiter runs")
		room.send("", "k", "body") // waits for it
		require.Zero(t, room.atOnce.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, room.waited.Load())

		go send(h, "l", "body")
		synctest.Wait()
		room.send("", "l", "body") // nobody waits any more
		room.send("", "l", "body")
		require.EqualValues(t, 1, room.atOnce.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, room.waited.Load())
	})
}
