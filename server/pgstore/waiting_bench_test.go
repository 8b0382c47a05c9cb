package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// BenchmarkWait measures the time from a run's completion in one process until a duplicate in another process has the
// answer. The duplicate is told by a notification, or finds the answer by polling. The two ways take turns; an op is
// one round of each. Each key of a round has one duplicate, and the runs end 20 to 120 ms after all wait. The results
// are percentiles over all rounds. Beside them are those of a goroutine that is told by a channel and then sends
// SELECT 1: the least time that the machine needs.
func BenchmarkWait(b *testing.B) {
	look := durable(b)
	owner := newProcess(b, openOn(b, look, pgstore.Config{}, size(16)))
	listening := openOn(b, look, pgstore.Config{Listen: look.Config().ConnConfig}, size(16))
	listens(b, listening)
	told, polls := newProcess(b, listening), newProcess(b, openOn(b, look, pgstore.Config{}, size(16)))
	bare := bareWaiter{look}
	for _, keys := range []int{30, 300} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			late := map[string][]time.Duration{}
			round := func(name string, w waiter) { late[name] = append(late[name], waitRound(b, owner, w, keys)...) }
			for _, w := range []waiter{told, polls, bare} { // makes the connections
				waitRound(b, owner, w, keys)
			}
			b.ReportAllocs()
			for b.Loop() {
				round("notify", told)
				round("poll", polls)
				round("bare", bare)
			}
			for name, all := range late {
				b.ReportMetric(milli(middle(all)), name+"-p50-ms") // sorts
				b.ReportMetric(milli(all[len(all)*99/100]), name+"-p99-ms")
			}
		})
	}
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// A process is a guard that counts its waiters.
type process struct {
	*pgstore.Store

	guard *server.Guard
	waits chan struct{} // one for each watch of a round
}

func newProcess(b *testing.B, s *pgstore.Store) *process {
	b.Helper()
	p := &process{Store: s, waits: make(chan struct{}, 1000)}
	var err error
	p.guard, err = server.NewGuard(p, server.Unscoped, server.Config{Wait: time.Minute})
	require.NoError(b, err)
	return p
}

func (p *process) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	defer func() { p.waits <- struct{}{} }()
	return p.Store.Watch(id, fence)
}

// call runs fn under key, or waits for the run of another caller.
func (p *process) call(b *testing.B, key childkey.Key, fn func()) {
	task := server.Task{Name: "run", Scope: "tenant", Effect: server.Keyed}
	_, _, err := server.Do(b.Context(), p.guard, task, key, 0, func(context.Context, int) (int, error) {
		fn()
		return 0, nil
	})
	if err != nil {
		b.Error(err)
	}
}

// A waiter waits until a key's run has ended; the channel ended is then closed,
// too. allWait returns when the waiter waits for all keys.
type waiter interface {
	wait(b *testing.B, key childkey.Key, ended <-chan struct{})
	allWait(keys int)
}

func (p *process) wait(b *testing.B, key childkey.Key, _ <-chan struct{}) {
	p.call(b, key, func() { b.Error("run twice") })
}

func (p *process) allWait(keys int) {
	for range keys {
		<-p.waits
	}
}

type bareWaiter struct{ pool *pgxpool.Pool }

func (w bareWaiter) wait(b *testing.B, _ childkey.Key, ended <-chan struct{}) {
	<-ended
	if _, err := w.pool.Exec(b.Context(), "select 1"); err != nil {
		b.Error(err)
	}
}

func (bareWaiter) allWait(int) {}

// waitRound lets owner run n keys, and waiting wait for them. It returns, for
// each key, the time from the completion to the end of the wait.
func waitRound(b *testing.B, owner *process, waiting waiter, n int) []time.Duration {
	b.Helper()
	var began, done sync.WaitGroup
	allWait := make(chan struct{})
	ended, answered := make([]time.Time, n), make([]time.Time, n)
	over := make([]chan struct{}, n)
	keys := make([]childkey.Key, n)
	for i := range keys {
		keys[i], over[i] = childkey.MustNew(), make(chan struct{})
		began.Add(1)
		done.Go(func() {
			owner.call(b, keys[i], func() {
				began.Done()
				<-allWait
				time.Sleep(20*time.Millisecond + rand.N(100*time.Millisecond))
			})
			ended[i] = time.Now()
			close(over[i])
		})
	}
	began.Wait()
	for i := range keys {
		done.Go(func() {
			waiting.wait(b, keys[i], over[i])
			answered[i] = time.Now()
		})
	}
	waiting.allWait(n)
	close(allWait)
	done.Wait()
	late := make([]time.Duration, n)
	for i := range late {
		late[i] = answered[i].Sub(ended[i])
	}
	return late
}

// BenchmarkNotify measures the cost for all callers if somebody waits for a part of the keys. 64 callers claim and
// complete, in turns with and without waiters. The caller of such a key also notes on its record that somebody waits.
// The result is the median ratio of the rates.
func BenchmarkNotify(b *testing.B) {
	look := durable(b)
	s := openOn(b, look, pgstore.Config{}, size(32))
	listening := openOn(b, look, pgstore.Config{Listen: look.Config().ConnConfig})
	listens(b, listening)
	const note = "with s as (select set_config('synchronous_commit', 'off', true)) update idempotency set waiters = true from s where key = $1"
	for _, percent := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("percent=%d", percent), func(b *testing.B) {
			b.ReportAllocs()
			var rates, ratios []float64
			for b.Loop() {
				without, _ := turn(b, s, 64)
				rate, _ := turn(b, &noting{Store: s, note: func(id store.ID) error {
					if rand.IntN(100) >= percent {
						return nil
					}
					_, err := look.Exec(b.Context(), note, [16]byte(id))
					return err
				}}, 64)
				rates, ratios = append(rates, rate), append(ratios, rate/without)
			}
			b.ReportMetric(middle(rates), "ops/s")
			b.ReportMetric(middle(ratios), "x-rate")
		})
	}
}

// A noting store does something between the claim and the completion.
type noting struct {
	store.Store
	note func(store.ID) error
}

func (s *noting) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := s.note(o.ID); err != nil {
		return err
	}
	return s.Store.Settle(ctx, o, end)
}
