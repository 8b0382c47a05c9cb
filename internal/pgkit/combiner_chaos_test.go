package pgkit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// Callers leave, writes are refused and connections are killed, all at once. In the end the table
// agrees with the answer of each caller.
func TestCombiner_chaos(t *testing.T) {
	t.Parallel()
	b := newBench(t, 6, pgkit.CombinerConfig{MaxFlushes: 3})
	const callers, each, kills = 64, 40, 8
	outcomes := make([]error, callers*each)
	var over atomic.Int64
	var killer, wg sync.WaitGroup
	killer.Go(func() {
		for n := range int64(kills) { // not by the clock: where flushes are slow each would be hit
			for over.Load() < n*callers*each/kills {
				time.Sleep(time.Millisecond)
			}
			_, _ = b.look.Exec(context.Background(), `select pg_terminate_backend(pid) from pg_stat_activity
				where datname = current_database() and pid <> pg_backend_pid() and query like 'insert into t%' limit 1`)
		}
	})
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				id := caller*each + i
				outcomes[id] = b.putSomehow(id)
				over.Add(1)
			}
		})
	}
	wg.Wait()
	killer.Wait()
	require.NoError(t, b.combiner.Close(t.Context()))
	require.NoError(t, b.writer.Close(t.Context()))

	told := make(map[string]int)
	for id, err := range outcomes {
		there := queryRow[bool](t, b.look, "select exists (select from t where id = $1)", id)
		switch {
		case err == nil:
			told["written"]++
			require.True(t, there, "id %d was said to be written", id)
		case errors.Is(err, pgkit.ErrFateUnknown):
			told["unknown"]++
		default:
			told["not written"]++
			require.False(t, there, "id %d was said not to be written: %v", id, err)
		}
	}
	t.Log(told)
	require.Len(t, told, 3, "less happened than was meant to")
	require.Greater(t, told["written"], callers*each/2)
	puts, commits := b.count(t)
	require.Less(t, commits, puts, "nothing was combined")
	require.Zero(t, b.combiner.Queued())
	until(t, "writes that were left have ended", b.combiner.Idle)
}

// putSomehow puts id: one in ten so that the server refuses it, and one in five for
// a caller with little time.
func (b *bench) putSomehow(id int) error {
	p := put{id, id % 100}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rand.N(10) == 0 {
		p.value = -1
	}
	if rand.N(5) == 0 {
		defer time.AfterFunc(rand.N(4*time.Millisecond), cancel).Stop() // at any moment of a flush
	}
	value, ok, err := b.puts.Do(ctx, p)
	if err == nil && (!ok || value != 2*p.value) {
		return fmt.Errorf("answer %d, %v", value, ok)
	}
	return err
}
