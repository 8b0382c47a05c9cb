package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// listening serves a handler on a socket.
func listening(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web
}

// posted is the answer to a call over a socket: its status, whether it is a replay, its code and its body. It is "" if
// none came.
func posted(t *testing.T, web *httptest.Server, key string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header.Set(wire.HeaderKey, key)
	res, err := web.Client().Do(r)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	code := res.Header.Get(wire.HeaderCode)
	if code != "" {
		body = nil
	}
	return fmt.Sprintln(res.StatusCode, res.Header.Get(wire.HeaderReplayed), code, string(body))
}

// hangUp sends a request over a socket. leave closes the socket, and returns once the server has noticed. The channel is
// closed when the server has left the handler.
func hangUp(t *testing.T, h http.Handler) (done <-chan *httptest.ResponseRecorder, leave func()) {
	t.Helper()
	ended, noticed := make(chan *httptest.ResponseRecorder), make(chan struct{})
	web := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		context.AfterFunc(r.Context(), func() { close(noticed) })
		h.ServeHTTP(w, r)
	}))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /users HTTP/1.1\r\nHost: h\r\n%s: k\r\nContent-Length: 2\r\n\r\n{}", wire.HeaderKey)
	require.NoError(t, err)
	return ended, func() {
		require.NoError(t, conn.Close())
		<-noticed
	}
}

// A client that hangs up while the handler runs, or in the middle of the round trip, changes nothing. The commit is sent,
// and its answer is heard. So the run is recorded in this process too, and a retry gets the answer.
func TestOneCommit_hangsUp(t *testing.T) {
	t.Parallel()
	for _, whileCommitting := range []bool{false, true} {
		t.Run(fmt.Sprintf("while committing %v", whileCommitting), func(t *testing.T) {
			t.Parallel()
			m := new(server.Metrics)
			var leave func()
			b := besideAs(t, whileCommitting, server.Config{Observer: m}, func(h http.Handler) (done <-chan *httptest.ResponseRecorder) {
				done, leave = hangUp(t, h)
				return done
			})
			leave()
			b.end()
			<-b.first
			count := m.Snapshot()["default"].Counts
			require.Equal(t, []int64{1, 1, 0}, []int64{
				count[server.EventClaimed.String()], count[server.EventSettled.String()], count[server.EventStoreError.String()],
			})
			require.Equal(t, []int{1, 1}, []int{queryRow[int](t, b.look, countUsers, "bob"), int(b.runs.Load())})
			w := postTo(b.processes[0].add, "k")
			require.Equal(t, []string{"201", "made", "true"}, []string{fmt.Sprint(w.Code), w.Body.String(), w.Header().Get(wire.HeaderReplayed)})
		})
	}
}

// A handler that fails leaves no row, and the next call runs.
func TestOneCommit_handlerFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]http.HandlerFunc{
		"500":   func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) },
		"panic": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, look := users(t, server.Config{})
			var healthy atomic.Bool
			web := listening(t, routeOn(t, g, oneCommit, func(rw http.ResponseWriter, r *http.Request) {
				if !healthy.Load() {
					must(pgstore.Queue(r.Context(), insertBob))
					fail(rw, r)
					return
				}
				queueBob(rw, r)
			}))
			require.NotContains(t, posted(t, web, "k"), "201")
			require.Zero(t, queryRow[int](t, look, countUsers, "bob"))
			healthy.Store(true)
			require.Equal(t, "201 false  made\n", posted(t, web, "k"))
			require.Equal(t, "201 true  made\n", posted(t, web, "k"))
			require.Equal(t, 1, queryRow[int](t, look, countUsers, "bob"))
		})
	}
}

// A statement that the server refuses takes the others with it. The answer of OnCommitError is stored.
func TestOneCommit_statementFails(t *testing.T) {
	t.Parallel()
	g, look := users(t, server.Config{})
	web := listening(t, routeOn(t, g, oneCommit, refuse(insertAnn)))
	require.Equal(t, "500 false transaction-failed \n", posted(t, web, "k"))
	route := oneCommit
	route.OnCommitError = func(_ context.Context, refused *store.TxError) (server.Response, error) {
		return server.Response{Status: http.StatusConflict, Body: []byte(refused.Constraint)}, nil
	}
	web = listening(t, routeOn(t, g, route, refuse(insertAnn)))
	require.Equal(t, "409 false  one_name\n", posted(t, web, "l"))
	require.Equal(t, "409 true  one_name\n", posted(t, web, "l"))
	require.Equal(t, []int{0, 1}, []int{queryRow[int](t, look, countUsers, "bob"), queryRow[int](t, look, countUsers, "ann")})
}
