package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A handler that ends because its lease is lost answers 500 in its own words. The caller gets the guard's.
func TestLease_interruptedHandler(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		effect    server.Effect
		reconcile bool
		want      wire.Code
		later     wire.Code // "": it runs
	}{
		{server.Transactional, false, wire.LeaseLost, ""},
		{server.Keyed, false, wire.LeaseLost, ""},
		{server.Opaque, false, wire.OutcomeUnknown, wire.OutcomeUnknown},
		{server.Opaque, true, wire.LeaseLost, wire.OutcomeUnknown},
	} {
		t.Run(fmt.Sprint(tt.effect, ", reconciled ", tt.reconcile), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				route := server.Route{Name: "charge", Effect: tt.effect}
				if tt.reconcile {
					route.Reconcile = func(context.Context, store.Record) (server.Resolution, error) { return server.StillUnknown(), nil }
				}
				runs := 0
				h, err := newGuard(t, deaf(memstore.New()), server.Config{}).Route(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if runs++; runs > 1 {
						return
					}
					<-r.Context().Done()
					http.Error(w, context.Cause(r.Context()).Error(), http.StatusInternalServerError)
				}))
				require.NoError(t, err)
				requireCode(t, send(h, "k", "{}"), tt.want)
				time.Sleep(server.DefaultLease)
				w := send(h, "k", "{}")
				if tt.later == "" {
					require.Equal(t, http.StatusOK, w.Code)
					return
				}
				require.EqualValues(t, tt.later, w.Header().Get(wire.HeaderCode))
			})
		})
	}
}

// An Observer that takes its time over one run's lost lease, or over an error of the store, holds no other run.
func TestObserver_slow(t *testing.T) {
	t.Parallel()
	for _, kind := range []server.EventKind{server.EventLeaseLost, server.EventStoreError} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				s := &flaky{TxStore: mem}
				s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
					for _, o := range owners {
						if o.ID == store.NewID(mustScope(t), "", key(t, "slow")) {
							return store.Renewal{}, errDown
						}
					}
					return mem.Renew(ctx, owners, lease)
				}
				o := observerFunc(func(e server.Event) {
					if e.Kind == kind {
						time.Sleep(time.Hour)
					}
				})
				g := newGuard(t, s, server.Config{Observer: o, Lease: time.Second})
				slow := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				long := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
						t.Error("the lease of another run was lost")
					case <-time.After(20 * time.Second):
						fmt.Fprint(w, "done")
					}
				})
				go send(slow, "slow", "{}")
				synctest.Wait()
				began := time.Now()
				s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
					got, err := mem.Renew(ctx, owners, lease)
					return got, errors.Join(err, errDown)
				}
				require.Equal(t, http.StatusOK, send(long, "long", "{}").Code)
				require.Less(t, time.Since(began), time.Minute)
				time.Sleep(3 * time.Hour) // the observer's calls end
			})
		})
	}
}

// An Observer that shuts the guard down when a lease is lost waits for no run that waits for it.
func TestObserver_shutsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, renewal := range []error{errDown, nil} { // the alarm notices it, or the store says so
			s := &flaky{TxStore: memstore.New(), renew: func(_ context.Context, owners []store.Owner, _ time.Duration) (store.Renewal, error) {
				if renewal != nil {
					return store.Renewal{}, renewal
				}
				return store.Renewal{Lost: owners}, nil
			}}
			over := make(chan error, 1)
			var g *server.Guard
			g = newGuard(t, s, server.Config{Lease: time.Second, SettleTimeout: 100 * time.Millisecond, Observer: observerFunc(func(e server.Event) {
				if e.Kind == server.EventLeaseLost {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					over <- g.Shutdown(ctx)
				}
			})})
			h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			go send(h, "k", "{}")
			began := time.Now()
			require.NoError(t, <-over)
			require.Less(t, time.Since(began), 10*time.Second)
		}
	})
}

type observerFunc func(server.Event)

func (f observerFunc) Observe(_ context.Context, e server.Event) { f(e) }

func mustScope(t *testing.T) string {
	t.Helper()
	scope, err := server.Unscoped(nil)
	require.NoError(t, err)
	return scope
}
