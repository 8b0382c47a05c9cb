package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A patchy store renews some owners of a call and not the others, is slow, or
// fails altogether. It remembers its answers about each record.
type patchy struct {
	store.TxStore

	mu      sync.Mutex
	rand    *rand.Rand
	renewed map[store.ID]time.Time // when the lease was asked for that the store granted last
	lost    map[store.ID]bool
	partial int // calls that decided some owners and not others
}

func (p *patchy) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	p.mu.Lock()
	p.renewed[req.ID] = time.Now()
	p.mu.Unlock()
	return p.TxStore.Claim(ctx, req)
}

func (p *patchy) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	asked := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if delay := time.Duration(p.rand.Int64N(int64(6 * time.Second))); p.rand.IntN(4) == 0 {
		p.mu.Unlock()
		time.Sleep(delay)
		p.mu.Lock()
	}
	if p.rand.IntN(5) == 0 || ctx.Err() != nil {
		return store.Renewal{}, errors.Join(errDown, ctx.Err())
	}
	var got store.Renewal
	for _, o := range owners {
		switch n := p.rand.IntN(100); {
		case n == 0:
			got.Lost = append(got.Lost, o)
			p.lost[o.ID] = true
		case n < 70:
			got.Renewed = append(got.Renewed, o)
			p.renewed[o.ID] = asked
		}
	}
	left := len(owners) - len(got.Renewed) - len(got.Lost)
	if left == 0 {
		return got, nil
	}
	if left < len(owners) {
		p.partial++
	}
	return got, fmt.Errorf("%d records are held", left)
}

// A run loses its lease when the store says so, or nine tenths of the lease after
// its own last renewal, to the instant. The other owners of a call do not matter.
func TestLease_partialRenewals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &patchy{
					TxStore: memstore.New(), rand: rand.New(rand.NewPCG(seed, 0)),
					renewed: make(map[store.ID]time.Time), lost: make(map[store.ID]bool),
				}
				g := newGuard(t, s, server.Config{HandlerTimeout: time.Hour})
				var wg sync.WaitGroup
				for i := range 40 {
					id := unscopedID(t, g, fmt.Sprint("key-", i))
					length := time.Duration(s.rand.Int64N(int64(3 * time.Minute)))
					h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
						select {
						case <-r.Context().Done():
						case <-time.After(length):
						}
						s.mu.Lock()
						defer s.mu.Unlock()
						since := time.Since(s.renewed[id])
						switch cause := context.Cause(r.Context()); {
						case s.lost[id]:
							assert.ErrorIs(t, cause, server.ErrLeaseLost)
						case cause != nil:
							assert.ErrorIs(t, cause, server.ErrLeaseLost)
							assert.Equal(t, server.DefaultLease*9/10, since, "the last renewal was so long ago")
						default:
							assert.Less(t, since, server.DefaultLease*9/10)
						}
					})
					wg.Go(func() { send(h, fmt.Sprint("key-", i), "b") })
				}
				wg.Wait()
				require.NoError(t, g.Shutdown(t.Context()))
				require.Positive(t, s.partial)
			})
		})
	}
}
