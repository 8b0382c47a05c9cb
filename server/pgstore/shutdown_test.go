package pgstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Runs that Shutdown cancels are recorded before the store is closed after it.
func TestShutdown_thenClose(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			look := pgtest.NewPool(t, pgstore.Migrate)
			store, err := pgstore.Open(t.Context(), look.Config(), pgstore.Config{AllowNonDurable: true})
			require.NoError(t, err)
			g, err := server.NewGuard(store, server.Unscoped, server.Config{})
			require.NoError(t, err)
			began := make(chan struct{})
			h, err := g.Handler(effect, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
				assert.ErrorIs(t, context.Cause(r.Context()), server.ErrShutdown)
				time.Sleep(20 * time.Millisecond) // it stops as soon as it can: its work is done
				w.WriteHeader(http.StatusCreated)
			}))
			require.NoError(t, err)
			status := make(chan int, 1)
			go func() {
				r := httptest.NewRequest(http.MethodPost, "/", nil)
				r.Header.Set(wire.HeaderKey, "k")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status <- w.Code
			}()
			<-began
			ctx, cancel := context.WithTimeout(t.Context(), server.DefaultSettleTimeout+100*time.Millisecond)
			defer cancel()
			require.NoError(t, g.Shutdown(ctx))
			store.Close()
			require.Equal(t, http.StatusCreated, <-status)
			require.Equal(t, int(server.StateCompleted), queryRow[int](t, look, "select state from idempotency"))
		})
	}
}
