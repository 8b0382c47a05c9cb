package server_test

import (
	"context"
	"net/http"
	"strconv"
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

// If a request is marked as a retry, or is old, the guard reads first.
func TestClaim_guessesRepeats(t *testing.T) {
	t.Parallel()
	guesses := []struct {
		name    string
		attempt int
		age     time.Duration // since it was first sent; 0: no first-sent time
		want    bool
	}{
		{"says nothing", 0, 0, false},
		{"first attempt", 1, 0, false},
		{"second attempt", 2, 0, true},
		{"just sent", 0, time.Millisecond, false},
		{"sent a minute ago", 0, time.Minute, true},
		{"first attempt for a request that takes its time", 1, 20 * time.Second, false},
		{"first attempt after somebody else's", 1, time.Minute, true},
		{"second attempt, just sent", 2, time.Millisecond, true},
	}
	for i, tt := range guesses {
		var asked []string // one request runs at a time
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			asked = append(asked, "claim")
			return s.TxStore.Claim(ctx, req)
		}
		s.read = func(ctx context.Context, id store.ID) (store.Record, error) {
			asked = append(asked, "read")
			return s.TxStore.Read(ctx, id)
		}
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, answer(http.StatusCreated, new(atomic.Int64)))
		var headers []string
		if tt.attempt > 0 {
			headers = append(headers, wire.HeaderRetryAttempt, strconv.Itoa(tt.attempt))
		}
		if tt.age > 0 {
			headers = append(headers, wire.HeaderFirstSent, time.Now().Add(-tt.age).UTC().Format(time.RFC3339Nano))
		}
		requireAnswer(t, send(h, strconv.Itoa(i), "b", headers...), http.StatusCreated, firstAnswer, false)
		first, repeated := []string{"claim"}, []string{"claim"}
		if tt.want {
			first, repeated = []string{"read", "claim"}, []string{"read"}
		}
		require.Equal(t, first, asked, "%s: absent", tt.name)
		asked = nil
		requireAnswer(t, send(h, strconv.Itoa(i), "b", headers...), http.StatusCreated, firstAnswer, true)
		require.Equal(t, repeated, asked, "%s: completed", tt.name)
	}
}

// A read may find the call's own claim, whose answer was lost. It may not be durable yet. Only a claim makes sure
// that it is durable, and the handler runs after that.
func TestClaim_ownClaimFoundByRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			asked = append(asked, "claim")
			rec, won, err := s.TxStore.Claim(ctx, req)
			switch len(asked) {
			case 1:
				return store.Record{}, false, store.ErrFateUnknown
			case 2:
				return store.Record{}, false, store.ErrInProgress
			}
			return rec, won, err
		}
		s.read = func(ctx context.Context, id store.ID) (store.Record, error) {
			asked = append(asked, "read")
			return s.TxStore.Read(ctx, id)
		}
		var runs atomic.Int64
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, answer(http.StatusCreated, &runs))
		requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, false)
		require.EqualValues(t, 1, runs.Load())
		require.Equal(t, []string{"claim", "claim", "read", "claim"}, asked)
	})
}
