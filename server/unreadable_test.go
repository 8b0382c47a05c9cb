package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

var errDamaged = fmt.Errorf("some store: %w: state 7", store.ErrRecordUnreadable)

// A damaged record is not an outage: no retry can help, and no handler may run.
func TestHandler_damagedRecord(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	s.claim = func(context.Context, store.ClaimRequest) (store.Record, bool, error) {
		return store.Record{}, false, errDamaged
	}
	events := new(witness)
	g := newGuard(t, s, server.Config{Observer: events})
	h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	w := send(h, "k", "b")
	requireCode(t, w, wire.RecordUnreadable)
	require.Empty(t, w.Header().Get(wire.HeaderRetryAfter))
	require.NotContains(t, w.Body.String(), "state 7")
	require.Zero(t, events.count(server.EventStoreError), "the store works")

	_, _, err := server.Do(t.Context(), g, server.Task{Name: "t", Scope: "s", Effect: server.Keyed}, key(t, "k"), 1,
		func(context.Context, int) (int, error) { return 0, errors.New("ran") })
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.RecordUnreadable})
	require.ErrorIs(t, err, store.ErrRecordUnreadable)
}

// The same holds if a request finds the damage only at its second look.
func TestHandler_recordDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	g := newGuard(t, s, server.Config{Lease: server.MinLease})
	fail := true
	h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) {
		if !fail {
			t.Error("the handler ran")
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	require.Equal(t, http.StatusBadGateway, send(h, "k", "b").Code)
	fail = false
	s.takeOver = func(context.Context, store.ClaimRequest, int64) (store.Record, bool, error) {
		return store.Record{}, false, errDamaged
	}
	requireCode(t, send(h, "k", "b"), wire.RecordUnreadable)
}

// An undo of a damaged forward record changes nothing, and is told so.
func TestBarrier_damagedRecord(t *testing.T) {
	t.Parallel()
	s := &damagedForward{TxStore: memstore.New()}
	h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		_, err := server.Barrier(r.Context())
		require.ErrorIs(t, err, store.ErrRecordUnreadable)
		w.WriteHeader(http.StatusOK)
	})
	requireCode(t, send(h, "undo", "b", wire.HeaderCancels, "forward"), wire.RecordUnreadable)
}

type damagedForward struct{ store.TxStore }

func (damagedForward) Cancel(context.Context, store.CancelRequest) (store.Record, bool, error) {
	return store.Record{}, false, errDamaged
}

func TestLookupHandler_damagedRecord(t *testing.T) {
	t.Parallel()
	s := &flaky{TxStore: memstore.New()}
	s.read = func(context.Context, store.ID) (store.Record, error) { return store.Record{}, errDamaged }
	g := newGuard(t, s, server.Config{StoreTimeout: time.Minute})
	r := ordered("k", "")
	r.Method = http.MethodGet
	requireCode(t, serve(g.LookupHandler(), r), wire.RecordUnreadable)
}
