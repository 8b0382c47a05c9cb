package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// An OnCommitError panics, waits for another call, waits until its ctx ends, or asks the guard. The transaction is over by
// then, so that no lock of it remains, and the key is as usable as after any other failure.
func TestCallbacks_onCommitError(t *testing.T) {
	t.Parallel()
	taken := server.Response{Status: http.StatusConflict, Body: []byte("taken")}
	for _, tt := range []struct {
		name    string
		timeout time.Duration // of a handler
		do      func(ctx context.Context, g *server.Guard, h http.Handler) error
		code    wire.Code // of the first answer; "": it is taken
	}{
		{"panics", 0, func(context.Context, *server.Guard, http.Handler) error { panic("boom") }, ""},
		{"is slow", 0, func(ctx context.Context, _ *server.Guard, h http.Handler) error {
			answered := make(chan int, 1)
			go func() { answered <- postTo(h, "other", "Name", "bob").Code }() // it inserts what the COMMIT has given up
			select {
			case code := <-answered:
				assert.Equal(t, http.StatusCreated, code)
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, ""},
		{"never ends", 5 * time.Second, func(ctx context.Context, _ *server.Guard, _ http.Handler) error {
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), server.ErrHandlerTimeout)
			return context.Cause(ctx)
		}, wire.TransactionFailed},
		{"asks the guard", 0, func(ctx context.Context, g *server.Guard, _ http.Handler) error {
			found, err := g.Lookup(ctx, "unscoped", childkey.MustParse("k"))
			assert.NoError(t, err)
			assert.Equal(t, server.StateInProgress, found.State)
			_, err = g.ListStuck(ctx, store.ListRequest{})
			return err
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, look := users(t, server.Config{HandlerTimeout: tt.timeout})
			var h http.Handler
			asked := 0
			h = routeOn(t, g, server.Route{
				Effect: server.Transactional,
				OnCommitError: func(ctx context.Context, _ *store.TxError) (server.Response, error) {
					if asked++; asked > 1 {
						return taken, nil
					}
					return taken, tt.do(ctx, g, h)
				},
			}, func(w http.ResponseWriter, r *http.Request) {
				statement := insertLate
				if r.Header.Get("Name") != "" {
					statement = fmt.Sprintf("insert into users values ('%s')", r.Header.Get("Name"))
				}
				if _, err := pgstore.Tx(r.Context()).Exec(r.Context(), statement); err != nil {
					panic(err)
				}
				w.WriteHeader(http.StatusCreated)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			call := func() *httptest.ResponseRecorder { // nil after a panic
				answered := make(chan *httptest.ResponseRecorder, 1)
				go func() {
					defer close(answered)
					defer func() { _ = recover() }() // as net/http does
					answered <- postTo(h, "k")
				}()
				select {
				case w := <-answered:
					return w
				case <-ctx.Done():
					require.Fail(t, "a call does not return")
					return nil
				}
			}
			const readState = "select state from idempotency" // of the only key, where a call failed
			first := call()
			switch {
			case tt.name == "panics":
				require.Nil(t, first)
				require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, readState)))
			case tt.code != "":
				requireCode(t, first, tt.code)
				require.Equal(t, server.StateReleased, server.State(queryRow[int](t, look, readState)))
			default:
				require.Equal(t, "taken", first.Body.String())
			}
			for range 2 {
				require.Equal(t, http.StatusConflict, call().Code)
			}
			require.Equal(t, "true", call().Header().Get(wire.HeaderReplayed))
			require.Equal(t, map[bool]int{true: 1, false: 2}[first != nil && tt.code == ""], asked)
		})
	}
}
