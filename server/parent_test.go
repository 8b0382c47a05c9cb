package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// callerID is the ID of a record in the caller's store.
const callerID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

// claims are the parents of the calls that claimed a key, in one goroutine.
type claims struct{ parents []store.ID }

func (c *claims) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventClaimed {
		c.parents = append(c.parents, e.Parent)
	}
}

// The record names the caller's record, as the first claim did. A malformed name counts as none, and no name causes a
// refusal.
func TestHandler_parent(t *testing.T) {
	t.Parallel()
	parent, err := store.ParseID(callerID)
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		headers []string
		want    store.ID
	}{
		{"none", nil, store.ID{}},
		{"the caller's", []string{wire.HeaderParent, callerID}, parent},
		{"malformed", []string{wire.HeaderParent, callerID + "0"}, store.ID{}},
		{"twice", []string{wire.HeaderParent, callerID, wire.HeaderParent, callerID}, store.ID{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, seen := memstore.New(), new(claims)
			g := newGuard(t, s, server.Config{Observer: seen})
			h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			require.Equal(t, http.StatusBadGateway, send(h, "k", "b", tt.headers...).Code)
			require.Equal(t, http.StatusBadGateway, send(h, "k", "b", wire.HeaderParent, "00000000-0000-0000-0000-000000000001").Code, "runs again")
			r, err := s.Read(t.Context(), store.NewID("unscoped", "", key(t, "k")))
			require.NoError(t, err)
			require.EqualValues(t, 2, r.Fence)
			require.Equal(t, tt.want, r.Parent, "the first claim's")
			require.Equal(t, []store.ID{tt.want, {15: 1}}, seen.parents, "each claim's own")
		})
	}
}

// The record of a Do inside a run names the record of that run. Outside a run it names none.
func TestDo_parent(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	g := newGuard(t, s, server.Config{})
	pay := func(ctx context.Context, k string) {
		_, _, err := server.Do(ctx, g, payroll(server.Keyed), key(t, k), transfer{7}, func(context.Context, transfer) (booking, error) {
			return booking{1}, nil
		})
		require.NoError(t, err)
	}
	h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) { pay(r.Context(), "inside") })
	require.Equal(t, http.StatusOK, send(h, "k", "b", wire.HeaderParent, callerID).Code)
	pay(t.Context(), "outside")
	outer := store.NewID("unscoped", "", key(t, "k"))
	for k, want := range map[string]store.ID{"inside": outer, "outside": {}} {
		r, err := s.Read(t.Context(), store.NewID("acme", "", key(t, k)))
		require.NoError(t, err)
		require.Equal(t, want, r.Parent, k)
	}
	children, err := g.ListStuck(t.Context(), store.ListRequest{Parent: outer})
	require.NoError(t, err)
	require.Len(t, children, 1, "in any state")
}
