package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
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

// A stalled store answers no write in time while it is stalled. A write becomes visible when the stall ends, as a COMMIT
// that waits for a standby does; lost says that it never does.
type stalledStore struct {
	*memstore.Store

	mu   sync.Mutex
	over chan struct{} // closed at the end of the stall; nil: there is none
	lost bool
}

func (s *stalledStore) stall() (end func()) {
	over := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = over
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = nil
		close(over)
	}
}

// write does a write now, or at the end of the stall. Then the caller does not learn it in time.
func (s *stalledStore) write(ctx context.Context, write func(context.Context) error) error {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over == nil {
		return write(ctx)
	}
	go func() {
		<-over
		if !s.lost {
			_ = write(context.WithoutCancel(ctx))
		}
	}()
	<-ctx.Done()
	return fmt.Errorf("%w: %w", store.ErrFateUnknown, ctx.Err())
}

func (s *stalledStore) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	var r store.Record
	var won bool
	err := s.write(ctx, func(ctx context.Context) error {
		var err error
		r, won, err = s.Store.Claim(ctx, req)
		return err
	})
	if err != nil { // it may be made later
		return store.Record{}, false, err
	}
	return r, won, nil
}

func (s *stalledStore) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	var r store.Record
	var won bool
	err := s.write(ctx, func(ctx context.Context) error {
		var err error
		r, won, err = s.Store.TakeOver(ctx, req, from)
		return err
	})
	if err != nil { // it may be made later
		return store.Record{}, false, err
	}
	return r, won, nil
}

func (s *stalledStore) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	return s.write(ctx, func(ctx context.Context) error { return s.Store.Settle(ctx, o, end) })
}

// A claim that became durable after its call had given it up is released: nothing ran, and the process knows it.
func TestUnsettled_claims(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, taken := range []bool{false, true} {
			for _, lost := range []bool{false, true} {
				for _, stall := range []time.Duration{8 * time.Second, 3 * time.Minute} { // shorter and longer than a lease
					t.Run(fmt.Sprint(effect, ", taken over ", taken, ", lost ", lost, ", ", stall), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							s := &stalledStore{Store: memstore.New(), lost: lost}
							g := newGuard(t, s, server.Config{})
							runs := 0
							h := newRoute(t, g, effect, func(w http.ResponseWriter, r *http.Request) {
								if r.Header.Get("Refuse") != "" {
									w.WriteHeader(http.StatusForbidden)
									return
								}
								runs++
							})
							if taken {
								require.Equal(t, http.StatusForbidden, send(h, "k", "{}", "Refuse", "yes").Code)
							}
							end := s.stall()
							requireCode(t, send(h, "k", "{}"), wire.StoreUnavailable)
							time.Sleep(stall - server.DefaultStoreTimeout)
							end()
							time.Sleep(server.DefaultLease)
							require.Equal(t, http.StatusOK, send(h, "k", "{}").Code)
							require.Equal(t, 1, runs)
							require.NoError(t, g.Shutdown(t.Context()))
						})
					})
				}
			}
		}
	}
}

// What a run did is recorded, however long the store stalls while the process lives.
func TestUnsettled_ends(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Keyed, server.Opaque} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(effect, ", lost ", lost), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &stalledStore{Store: memstore.New(), lost: lost}
					g := newGuard(t, s, server.Config{})
					runs := 0
					var end func()
					h := newRoute(t, g, effect, func(w http.ResponseWriter, _ *http.Request) {
						runs++
						end = s.stall()
						fmt.Fprint(w, "charged")
					})
					requireCode(t, send(h, "k", "{}"), wire.StoreUnavailable)
					time.Sleep(3 * time.Minute)
					if effect == server.Opaque { // another process finds it dead
						requireCode(t, send(newRoute(t, newGuard(t, s.Store, server.Config{}), effect, http.NotFound), "k", "{}"), wire.OutcomeUnknown)
					}
					end()
					time.Sleep(server.DefaultLease)
					requireAnswer(t, send(h, "k", "{}"), http.StatusOK, "charged", true)
					require.Equal(t, 1, runs)
				})
			})
		}
	}
}

// A shutdown tries once more, and says what it leaves.
func TestUnsettled_shutdown(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &stalledStore{Store: memstore.New(), lost: true}
			g := newGuard(t, s, server.Config{})
			var end func()
			h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { end = s.stall() })
			requireCode(t, send(h, "k", "{}"), wire.StoreUnavailable)
			if over {
				end()
				require.NoError(t, g.Shutdown(t.Context()))
				return
			}
			require.ErrorContains(t, g.Shutdown(t.Context()), "the ends of 1 runs")
			end()
		})
	}
}

// The first answer to a claim is lost, and the second says that nothing changed. The first can still have been made: the
// call may win with its token as long as it waits, and gives the key up when it ends.
func TestUnsettled_claimWithTwoAnswers(t *testing.T) {
	t.Parallel()
	for _, second := range []error{errDown, store.ErrInProgress} {
		for _, waits := range []int{0, 5} {
			t.Run(fmt.Sprint(second, ", waits ", waits), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, runs := &flaky{TxStore: memstore.New()}, 0
					var calls atomic.Int64
					s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
						switch calls.Add(1) {
						case 1:
							_, _, err := s.TxStore.Claim(ctx, req)
							require.NoError(t, err)
							return store.Record{}, false, store.ErrFateUnknown
						case 2:
							return store.Record{}, false, second
						default:
							return s.TxStore.Claim(ctx, req)
						}
					}
					h := newRoute(t, newGuard(t, s, server.Config{}), server.Opaque, func(http.ResponseWriter, *http.Request) { runs++ })
					if w := send(h, "k", "{}", wait(waits)...); waits > 0 && errors.Is(second, store.ErrInProgress) {
						require.Equal(t, http.StatusOK, w.Code)
					} else {
						require.NotEqual(t, http.StatusOK, w.Code)
					}
					time.Sleep(server.DefaultLease)
					require.Equal(t, http.StatusOK, send(h, "k", "{}").Code)
					require.Equal(t, 1, runs)
				})
			})
		}
	}
}
