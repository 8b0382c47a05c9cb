package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
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

// decided is a store in which another transaction is deciding about every key.
type decided struct {
	*memstore.Store

	open   atomic.Bool
	claims atomic.Int32
}

func (d *decided) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	if !d.open.Load() {
		d.claims.Add(1)
		time.Sleep(store.MaxLockWait)
		return store.Record{}, false, store.ErrInProgress
	}
	return d.Store.Claim(ctx, req)
}

func (d *decided) send(t *testing.T, g *server.Guard, prefer string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := g.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }))
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
	r.Header.Set(wire.HeaderKey, "order-42")
	r.Header.Set("Prefer", prefer)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A key that another transaction is deciding about is in progress, and that is not an error of the store. The
// followers get the leader's answer, and do not ask one after the other. A request that can wait asks again until the
// key is decided.
func TestGuard_keyBeingDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &decided{Store: memstore.New()}
		m := new(server.Metrics)
		g, err := server.NewGuard(d, server.Unscoped, server.Config{Observer: m})
		require.NoError(t, err)
		start := time.Now()
		answers := make(chan *httptest.ResponseRecorder, 20)
		for range cap(answers) {
			go func() { answers <- d.send(t, g, "wait=0") }()
		}
		for range cap(answers) {
			w := <-answers
			require.Equal(t, http.StatusConflict, w.Code, w.Body)
			require.Contains(t, w.Body.String(), string(wire.InProgress))
			require.Equal(t, "1", w.Header().Get(wire.HeaderRetryAfter))
		}
		require.LessOrEqual(t, time.Since(start), 2*store.MaxLockWait) // most came after the first had asked
		require.LessOrEqual(t, d.claims.Load(), int32(2))

		time.AfterFunc(2*time.Second, func() { d.open.Store(true) })
		w := d.send(t, g, "wait=5")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Less(t, time.Since(start), 5*time.Second)
		require.Greater(t, d.claims.Load(), int32(3))
		require.NoError(t, g.Shutdown(t.Context()))
	})
}

// The in-progress of a leader that does not wait, or whose client hangs up, is only its own. A follower that can
// still wait goes on waiting for the decision.
func TestGuard_keyBeingDecided_impatientLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &decided{Store: memstore.New()}
		g, err := server.NewGuard(d, server.Unscoped, server.Config{})
		require.NoError(t, err)
		impatient := make(chan *httptest.ResponseRecorder, 1)
		patient := make(chan *httptest.ResponseRecorder, 10)
		go func() { impatient <- d.send(t, g, "wait=1") }()
		synctest.Wait() // it leads
		for range cap(patient) {
			go func() { patient <- d.send(t, g, "wait=5") }()
		}
		time.AfterFunc(3*time.Second, func() { d.open.Store(true) })
		start := time.Now()
		require.Equal(t, http.StatusConflict, (<-impatient).Code)
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		for range cap(patient) {
			require.Equal(t, http.StatusOK, (<-patient).Code)
		}
		require.NoError(t, g.Shutdown(t.Context()))
	})
}
