package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A planStore lets commits of plans fail.
type planStore struct {
	*memstore.Store
	fail func(try int) (before, after error)

	mu    sync.Mutex
	tries int
}

func (s *planStore) Plan() store.Plan { return &failingPlan{s.Store.Plan(), s} }

type failingPlan struct {
	store.Plan
	of *planStore
}

func (p *failingPlan) Commit(ctx context.Context, req store.ClaimRequest, end store.Settlement) (store.Record, bool, error) {
	p.of.mu.Lock()
	p.of.tries++
	before, after := p.of.fail(p.of.tries)
	p.of.mu.Unlock()
	if before != nil {
		return store.Record{}, false, before
	}
	r, first, err := p.Plan.Commit(ctx, req, end)
	if after != nil {
		return store.Record{}, false, after
	}
	return r, first, err
}

// seenKinds remembers the kinds of events.
type seenKinds struct {
	mu    sync.Mutex
	kinds []server.EventKind
}

func (s *seenKinds) Observe(_ context.Context, e server.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = append(s.kinds, e.Kind)
}

// A commit whose answer was lost is asked about with the same token: the run finds its own record. The effect is there
// once, whatever is lost, and the handler runs once.
func TestOneCommit_failures(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("lost: %w", store.ErrFateUnknown)
	never := func(n int, err error) func(int) (error, error) {
		return func(try int) (error, error) {
			if try <= n {
				return err, nil
			}
			return nil, nil
		}
	}
	for _, tt := range []struct {
		name   string
		fail   func(try int) (before, after error)
		code   wire.Code // ""; the answer
		rows   int       // after the first call
		again  int       // and after the second
		events []server.EventKind
	}{
		{"nothing fails", never(0, nil), "", 1, 1, []server.EventKind{server.EventClaimed, server.EventSettled}},
		{"the answer is lost", func(try int) (error, error) {
			if try == 1 {
				return nil, lost
			}
			return nil, nil
		}, "", 1, 1, []server.EventKind{server.EventStoreError, server.EventClaimed, server.EventSettled}},
		{"both answers are lost", func(try int) (error, error) {
			if try <= 2 {
				return nil, lost
			}
			return nil, nil
		}, wire.StoreUnavailable, 1, 1, []server.EventKind{server.EventStoreError, server.EventStoreError}},
		{"the request is lost, and the fate unknown", never(1, lost), "", 1, 1, []server.EventKind{server.EventStoreError, server.EventClaimed, server.EventSettled}},
		{"the connection is lost", never(1, store.ErrTxLost), "", 1, 1, []server.EventKind{server.EventStoreError, server.EventClaimed, server.EventSettled}},
		{"the connection is lost twice", never(2, store.ErrTxLost), wire.StoreUnavailable, 0, 1, []server.EventKind{server.EventStoreError, server.EventStoreError}},
		{"two conflicts", never(2, store.ErrConflict), "", 1, 1, []server.EventKind{server.EventConflict, server.EventConflict, server.EventClaimed, server.EventSettled}},
		{"three conflicts", never(3, store.ErrConflict), wire.StoreUnavailable, 0, 1, []server.EventKind{server.EventConflict, server.EventConflict}},
		{"the store is away", never(1, errors.New("away")), wire.StoreUnavailable, 0, 1, []server.EventKind{server.EventStoreError}},
		{"the key is being decided about", never(1, store.ErrInProgress), "", 1, 1, []server.EventKind{server.EventClaimed, server.EventSettled, server.EventWaited}},
		{"it was sent too long ago", never(1, store.ErrExpired), wire.KeyExpired, 0, 1, nil},
		{"a refused write", never(1, &store.TxError{SQLState: "23505", Commit: true}), wire.TransactionFailed, 0, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := new(seenKinds)
			g, err := server.NewGuard(&planStore{Store: memstore.New(), fail: tt.fail}, server.Unscoped, server.Config{Observer: seen})
			require.NoError(t, err)
			rows, runs := 0, 0
			h, err := g.Route(server.Route{Effect: server.Transactional, OneCommit: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				require.NoError(t, memstore.Tx(r.Context()).Do(func() { rows++ }))
				fmt.Fprint(w, "done")
			}))
			require.NoError(t, err)
			post := func() *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
				r.Header.Set(wire.HeaderKey, "k")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			w := post()
			require.Equal(t, []any{string(tt.code), tt.rows, 1}, []any{w.Header().Get(wire.HeaderCode), rows, runs})
			if tt.code == "" {
				require.Equal(t, []string{"done", "false"}, []string{w.Body.String(), w.Header().Get(wire.HeaderReplayed)})
			}
			seen.mu.Lock()
			for _, kind := range tt.events {
				require.Contains(t, seen.kinds, kind)
			}
			for _, kind := range []server.EventKind{server.EventClaimed, server.EventConflict, server.EventStoreError, server.EventPanic, server.EventTakeOver} {
				count := func(all []server.EventKind) (n int) {
					for _, k := range all {
						if k == kind {
							n++
						}
					}
					return n
				}
				if kind != server.EventClaimed || slices.Contains(tt.events, server.EventClaimed) { // a key that is released counts as claimed
					require.Equal(t, count(tt.events), count(seen.kinds), kind)
				}
			}
			seen.mu.Unlock()
			require.Equal(t, "done", post().Body.String())
			require.Equal(t, tt.again, rows)
		})
	}
}

func TestOneCommit_badConfig(t *testing.T) {
	t.Parallel()
	g, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	for _, effect := range []server.Effect{server.Keyed, server.Opaque} {
		_, err := g.Route(server.Route{Effect: effect, OneCommit: true}, http.NotFoundHandler())
		require.ErrorContains(t, err, "Route.OneCommit")
	}
	plain, err := server.NewGuard(struct{ store.TxStore }{memstore.New()}, server.Unscoped, server.Config{})
	require.NoError(t, err)
	_, err = plain.Route(server.Route{Effect: server.Transactional, OneCommit: true}, http.NotFoundHandler())
	require.ErrorContains(t, err, "OneCommitStore")
}
