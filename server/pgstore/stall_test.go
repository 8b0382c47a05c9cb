package pgstore_test

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

var stall = flag.Duration("pgstore.stall", 2*time.Second, "how long TestStall holds the standby away")

// A synchronous standby goes away and comes back, under 64 callers who retry. While their process lives, no key needs a
// person, no effect that was finished stays unrecorded, and nothing runs twice.
func TestStall(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "alter system set synchronous_standby_names = ''")
	awaitStandbys(t, look, "")
	s, _ := poolOf(t, look, pgstore.Config{CloseTimeout: time.Millisecond}, size(16), func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	})
	cfg := server.Config{}
	if *stall < 10*time.Second { // the same in less time
		cfg = server.Config{StoreTimeout: *stall / 4, SettleTimeout: *stall / 3, Lease: *stall / 2}
	}
	g, err := server.NewGuard(s, server.Unscoped, cfg)
	require.NoError(t, err)
	var effects sync.Map // by key: *atomic.Int64
	goOn := make(chan struct{})
	h := routeOn(t, g, server.Route{Effect: server.Opaque}, func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		count, _ := effects.LoadOrStore(key, new(atomic.Int64))
		if strings.HasPrefix(key, "before") {
			<-goOn // it finishes while the standby is away
		}
		count.(*atomic.Int64).Add(1) //nolint:errcheck,forcetypeassert // nothing else is stored
		fmt.Fprint(w, "charged")
	})

	const callers = 64
	var first, all sync.WaitGroup
	over := make(chan struct{})
	call := func(key string) {
		first.Add(1)
		all.Go(func() {
			w := postTo(h, key)
			first.Done()
			<-over
			for w.Code != http.StatusOK {
				if strings.Contains(w.Body.String(), "outcome-unknown") {
					t.Errorf("%s: %s", key, w.Body)
					return
				}
				time.Sleep(100 * time.Millisecond)
				w = postTo(h, key)
			}
		})
	}
	for i := range callers / 2 {
		call(fmt.Sprint("before-", i))
	}
	until(t, "the first half runs", func() bool { return countOf(&effects) == callers/2 })
	exec(t, look, "alter system set synchronous_standby_names = 'ghost'")
	awaitStandbys(t, look, "ghost")
	away := time.Now()
	close(goOn)
	for i := range callers / 2 {
		call(fmt.Sprint("during-", i))
	}
	first.Wait() // each had its answer, whatever it was
	time.Sleep(time.Until(away.Add(*stall)))
	exec(t, look, "alter system set synchronous_standby_names = ''")
	awaitStandbys(t, look, "")
	close(over)
	all.Wait()

	effects.Range(func(key, count any) bool {
		require.EqualValues(t, 1, count.(*atomic.Int64).Load(), key) //nolint:errcheck,forcetypeassert // as above
		return true
	})
	require.Equal(t, callers, countOf(&effects))
	stuck, err := g.ListStuck(t.Context(), store.ListRequest{States: []store.State{store.StateUnknown, store.StateInProgress, store.StateQuarantined}})
	require.NoError(t, err)
	require.Empty(t, stuck)
	require.NoError(t, g.Shutdown(t.Context()))
}

func awaitStandbys(t *testing.T, look *pgxpool.Pool, names string) {
	t.Helper()
	exec(t, look, "select pg_reload_conf()")
	until(t, "the setting of standbys takes effect", func() bool {
		return queryRow[string](t, look, "select current_setting('synchronous_standby_names')") == names
	})
}

func countOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}
