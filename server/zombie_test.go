package server_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// Once another owner or an operator has changed the key of a zombie, the
// zombie's caller learns that the run does not count. The answer of the
// zombie's handler does not matter.
func TestZombie_failsOnceItsKeyWasTaken(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New()
				zombie := newRoute(t, newGuard(t, deaf(shared), server.Config{}), effect, func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					time.Sleep(10 * time.Second)
					w.WriteHeader(http.StatusInternalServerError)
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					requireCode(t, send(zombie, "k", "b"), wire.LeaseLost)
				}()
				time.Sleep(server.DefaultLease)
				var runs atomic.Int64
				successor := newRoute(t, newGuard(t, shared, server.Config{}), effect, answer(http.StatusOK, &runs))
				w := send(successor, "k", "b")
				if effect == server.Opaque {
					requireCode(t, w, wire.OutcomeUnknown)
				} else {
					requireAnswer(t, w, http.StatusOK, firstAnswer, false)
				}
				<-done
			})
		})
	}
}

// An owner can lose its lease even before it has a transaction.
func TestZombie_losesItsLeaseBeforeBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf(memstore.New())
		s.begin = func(ctx context.Context) (store.Tx, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var runs atomic.Int64
		h := newRoute(t, newGuard(t, s, server.Config{StoreTimeout: time.Hour}), server.Transactional, answer(http.StatusOK, &runs))
		requireCode(t, send(h, "k", "b"), wire.LeaseLost)
		require.Zero(t, runs.Load())
	})
}
