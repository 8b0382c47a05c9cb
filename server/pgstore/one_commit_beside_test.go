package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A besideTest is two processes over one database, with a request of a route with OneCommit that is running in the
// first of them.
type besideTest struct {
	look      *pgxpool.Pool
	processes [2]besideProcess
	first     <-chan *httptest.ResponseRecorder
	runs      atomic.Int32 // of the handler in the first process
	end       func()       // lets the first request end
}

type besideProcess struct{ add, undo http.Handler }

// beside starts the first request. It returns while its handler runs, or while its one transaction is open.
func beside(t *testing.T, whileCommitting bool) *besideTest {
	t.Helper()
	return besideAs(t, whileCommitting, server.Config{}, func(h http.Handler) <-chan *httptest.ResponseRecorder { return inFlight(h, "k") })
}

// besideAs is beside for guards with cfg. start sends the first request.
func besideAs(t *testing.T, whileCommitting bool, cfg server.Config, start func(http.Handler) <-chan *httptest.ResponseRecorder) *besideTest {
	t.Helper()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table users (name text, late int)")
	exec(t, look, "insert into users values ('ann', 1)")
	b := &besideTest{look: look}
	working, goOn := make(chan struct{}, 1), make(chan struct{})
	for i, s := range []*pgstore.Store{s, openOn(t, look, pgstore.Config{LockTimeout: 200 * time.Millisecond})} {
		g, err := server.NewGuard(s, server.Unscoped, cfg)
		require.NoError(t, err)
		b.processes[i].add = routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
			if i == 0 && b.runs.Add(1) == 1 {
				must(pgstore.Queue(r.Context(), "update users set late = late + 1 where name = $1", "ann"))
				working <- struct{}{}
				<-goOn
			}
			queueBob(rw, r)
		})
		b.processes[i].undo = routeOn(t, g, server.Route{Effect: server.Transactional}, func(rw http.ResponseWriter, r *http.Request) {
			fate, err := server.Barrier(r.Context())
			if err == nil {
				must(pgstore.Queue(r.Context(), "delete from users where name = $1", "bob"))
				fmt.Fprint(rw, fate)
			}
		})
	}
	held, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = held.Exec(t.Context(), "select from users where name = 'ann' for update")
	require.NoError(t, err)
	b.end = func() { require.NoError(t, held.Rollback(context.WithoutCancel(t.Context()))) }
	b.first = start(b.processes[0].add)
	<-working
	if whileCommitting {
		close(goOn)
		untilLocked(t, look)
		return b
	}
	end := b.end
	b.end = func() { close(goOn); end() }
	return b
}

// send sends one of the requests that can come beside the first, and waits for its answer.
func (b *besideTest) send(what string, process int) *httptest.ResponseRecorder {
	p, noWait := b.processes[process], []string{wire.HeaderPrefer, "wait=0"}
	switch what {
	case "undo":
		return postTo(p.undo, "undo-k", append(noWait, wire.HeaderCancels, "k")...)
	case "mismatch":
		return postTo(p.add, "k", append(noWait, "Content-Type", "text/plain")...)
	default:
		return postTo(p.add, "k", noWait...)
	}
}

// seenAs is an answer as a client classifies it: the code of a refusal, or the body of an answer.
func seenAs(w *httptest.ResponseRecorder) string {
	if code := w.Header().Get(wire.HeaderCode); code != "" {
		return code
	}
	return w.Body.String()
}

// A request that comes beside a run with OneCommit gets the answer of the wire contract in the same process. Another
// process cannot know of a handler that has sent nothing: a request that comes there came first. In each case the
// effect is there once, or not at all, as the answers say.
func TestOneCommit_beside(t *testing.T) {
	t.Parallel()
	const same, other = 0, 1
	for _, tt := range []struct {
		what            string
		process         int
		whileCommitting bool
		want, first     string
		runs, bobs      int // of the first handler; rows of bob at the end
	}{
		{"duplicate", same, false, "in-progress", "made", 1, 1},
		{"mismatch", same, false, "key-reused", "made", 2, 1}, // its claim is committed now, and its handler runs behind that
		{"undo", same, false, "in-progress", "made", 1, 1},
		{"duplicate", same, true, "in-progress", "made", 1, 1},
		{"mismatch", same, true, "in-progress", "made", 1, 1}, // and key-reused once the transaction has ended
		{"undo", same, true, "in-progress", "made", 1, 1},
		{"duplicate", other, true, "in-progress", "made", 1, 1},
		{"mismatch", other, true, "in-progress", "made", 1, 1},
		{"undo", other, true, "in-progress", "made", 1, 1},
		{"duplicate", other, false, "made", "made", 1, 1},
		{"mismatch", other, false, "made", "key-reused", 1, 1},
		{"undo", other, false, "never ran", "key-cancelled", 1, 0},
	} {
		t.Run(fmt.Sprintf("%s/%d/%v", tt.what, tt.process, tt.whileCommitting), func(t *testing.T) {
			t.Parallel()
			b := beside(t, tt.whileCommitting)
			began := time.Now()
			got := seenAs(b.send(tt.what, tt.process))
			took := time.Since(began)
			b.end()
			first := seenAs(<-b.first)
			require.Equal(t, []string{tt.want, tt.first}, []string{got, first}, "the answer beside it, and its own")
			require.Less(t, took, 4*store.MaxLockWait)
			require.Equal(t, []int{tt.runs, tt.bobs}, []int{int(b.runs.Load()), queryRow[int](t, b.look, countUsers, "bob")})
			require.Equal(t, 1, queryRow[int](t, b.look, "select count(*) from idempotency where fence = 1 and state = $1", server.StateCompleted))
		})
	}
}
