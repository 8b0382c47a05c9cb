package server_test

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A retry says that it is one, or is old: then the store is told to look first.
func TestClaim_guessesRepeats(t *testing.T) {
	t.Parallel()
	guesses := []struct {
		name    string
		attempt int
		age     time.Duration // since it was first sent; 0: it does not say
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
		var repeat atomic.Bool
		store := &flaky{TxStore: memstore.New()}
		store.claim = func(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
			repeat.Store(req.Repeat)
			return store.TxStore.Claim(ctx, req)
		}
		h := newRoute(t, newGuard(t, store, server.Config{}), server.Keyed, answer(http.StatusCreated, new(atomic.Int64)))
		var headers []string
		if tt.attempt > 0 {
			headers = append(headers, wire.HeaderRetryAttempt, strconv.Itoa(tt.attempt))
		}
		if tt.age > 0 {
			headers = append(headers, wire.HeaderFirstSent, time.Now().Add(-tt.age).UTC().Format(time.RFC3339Nano))
		}
		requireAnswer(t, send(h, strconv.Itoa(i), "b", headers...), http.StatusCreated, firstAnswer, false)
		require.Equal(t, tt.want, repeat.Load(), tt.name)
	}
}
