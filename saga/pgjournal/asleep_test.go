package pgjournal_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

var asleep = flag.Int("pgjournal.asleep", 10_000, "how many sagas sleep or wait for a signal in TestAsleep; the long form has 1,000,000")

var deposited = saga.NewSignal[verdict]("trip.deposited")

// Sleepers are sagas that sleep for a month, and sagas that were sent one signal and wait for another, for as long as it
// takes.
type sleepers struct {
	month, approval *saga.Definition[string, nothing]
	booked          chan booking // by the step behind the wait
	waiting         []journal.ID // some that wait for approved, and that nobody has sent it to yet
}

type booking struct {
	id journal.ID
	at time.Time
}

// fillAsleep stores n sagas, half of each kind. They are copies of a saga that an engine has brought that far.
func fillAsleep(tb testing.TB, look *pgxpool.Pool, n int) *sleepers {
	tb.Helper()
	s := &sleepers{booked: make(chan booking, 10_000)}
	s.month = saga.MustDefine("month", 1, func(b *saga.Builder[string, nothing]) {
		saga.Sleep(b, "trip.pause", saga.Const(b, 30*24*time.Hour))
	})
	s.approval = saga.MustDefine("approval", 1, func(b *saga.Builder[string, nothing]) {
		wait := saga.Await(b, approved).After(saga.Await(b, deposited))
		saga.StepFunc(b, "trip.book", wait.Output(), func(ctx context.Context, _ saga.Call[verdict]) (nothing, error) {
			info, _ := saga.FromContext(ctx)
			s.booked <- booking{info.ID, time.Now()}
			return nothing{}, nil
		}).Irreversible()
	})
	j := openOn(tb, look, pgjournal.Config{})
	e := s.open(tb, j, time.Second)
	defer closeEngine(tb, e)
	for _, d := range []*saga.Definition[string, nothing]{s.month, s.approval} {
		req, err := d.Request(childkey.MustNew(), "x")
		require.NoError(tb, err)
		_, err = d.Start(tb.Context(), e, req.Key, "x")
		require.NoError(tb, err)
		untilAsleep(tb, j, req.ID)
		if d == s.approval {
			require.NoError(tb, deposited.Send(tb.Context(), e, req.ID, verdict{"bank"}))
			until(tb, "it waits for the second signal", func() bool {
				r, err := j.Read(tb.Context(), req.ID)
				return err == nil && r.Engine.IsZero() && r.Clean && slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
					return e.Step == deposited.Name() && e.Outcome == retry.Completed
				})
			})
		}
		copyAsleep(tb, look, req, n/2-1)
	}
	exec(tb, look, "vacuum analyze")
	rows, err := look.Query(tb.Context(), "select id from saga where name = 'approval' order by id limit 10000")
	require.NoError(tb, err)
	s.waiting, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id journal.ID, err error) {
		return id, row.Scan((*[16]byte)(&id))
	})
	require.NoError(tb, err)
	return s
}

// copyAsleep stores n copies of a saga, with its signals, under keys of their own.
func copyAsleep(tb testing.TB, look *pgxpool.Pool, of journal.StartRequest, n int) {
	tb.Helper()
	for from := 0; from < n; from += 10_000 {
		keys, ids := make([]string, min(10_000, n-from)), make([][16]byte, min(10_000, n-from))
		for i := range keys {
			key := childkey.MustNew()
			keys[i], ids[i] = key.String(), journal.IDOf(of.Scope, of.Name, key)
		}
		exec(tb, look, `insert into saga (created_at, version, id, plan, input_hash, name, scope, key, input, fence, engine,
				first_claimed_at, deadline_at, status, clean, wake_at, slept_at, revision, entries)
			select created_at + i * interval '1 microsecond', version, c.id, plan, input_hash, name, scope, c.key, input, fence, engine,
				first_claimed_at, deadline_at, status, clean, wake_at + i * interval '1 microsecond', slept_at, revision, entries
			from saga s, unnest($2::text[], $3::uuid[]) with ordinality as c (key, id, n), lateral (select c.n + $4 as i) o
			where s.id = $1`, of.ID, keys, ids, from)
		exec(tb, look, `insert into saga_signal (saga, check_at, woken, name, value)
			select c.id, g.check_at, g.woken, g.name, g.value
			from saga_signal g, unnest($2::uuid[]) as c (id)
			where g.saga = $1`, of.ID, ids)
	}
}

// open opens an engine that has both definitions.
func (s *sleepers) open(tb testing.TB, j journal.Journal, poll time.Duration) *saga.Engine {
	tb.Helper()
	e, err := saga.Open(tb.Context(), j, saga.Config{Definitions: []saga.AnyDefinition{s.month, s.approval}, Poll: poll})
	require.NoError(tb, err)
	return e
}

// operator is that of another process.
func (s *sleepers) operator(tb testing.TB, look *pgxpool.Pool) *saga.Operator {
	tb.Helper()
	o, err := saga.NewOperator(openOn(tb, look, pgjournal.Config{}), s.approval)
	require.NoError(tb, err)
	return o
}

// next returns the next saga that waits.
func (s *sleepers) next(tb testing.TB) (id journal.ID) {
	tb.Helper()
	require.NotEmpty(tb, s.waiting, "no saga waits any more: set -pgjournal.asleep")
	id, s.waiting = s.waiting[0], s.waiting[1:]
	return id
}

func (s *sleepers) plans(tb testing.TB, look *pgxpool.Pool) (all []journal.PlanHash) {
	tb.Helper()
	rows, err := look.Query(tb.Context(), "select hash from saga_plan")
	require.NoError(tb, err)
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h journal.PlanHash, err error) {
		var hash []byte
		err = row.Scan(&hash)
		copy(h[:], hash)
		return h, err
	})
	require.NoError(tb, err)
	require.Len(tb, all, 2)
	return all
}

// A claimCounter counts what an engine claims.
type claimCounter struct {
	journal.Journal
	polls, claimed atomic.Int64
}

func (c *claimCounter) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	all, err := c.Journal.Claim(ctx, req)
	c.claimed.Add(int64(len(all)))
	c.polls.Add(1)
	return all, err
}

// heapInUse is what is reachable.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Sagas that sleep, or wait for a signal, cost an engine nothing, however many they are: what it asks the journal reads no
// more for them, it holds nothing of them, and a signal wakes its saga alone.
//
// Not parallel: it measures what the process holds.
func TestAsleep(t *testing.T) {
	look := pgtest.NewPool(t, pgjournal.Migrate)
	t.Cleanup(func() { requireSound(t, look) })
	s := fillAsleep(t, look, *asleep)
	t.Run("statements", func(t *testing.T) { s.testStatements(t, look) })
	t.Run("engine", func(t *testing.T) { s.testEngine(t, look) })
}

func (s *sleepers) testStatements(t *testing.T, look *pgxpool.Pool) {
	l := new(listener)
	j := openOn(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 1, l })
	engine, plans := beat(t, j, time.Hour), s.plans(t, look)
	exec(t, look, `update saga_signal set check_at = clock_timestamp() - interval '1 hour'
		where ctid = any (array(select ctid from saga_signal limit 2000))`) // a batch for the sweep, and one for its plan
	claim := journal.ClaimRequest{Engine: engine, Plans: plans, Deferred: plans, Limit: 100, Backoff: time.Minute}
	for _, q := range []struct {
		name string
		most int // pages of each statement
		send func() error
	}{
		{"poll", 100, func() error {
			got, err := j.Claim(t.Context(), claim)
			require.Empty(t, got)
			return err
		}},
		{"look for signals", 40, func() error { _, err := j.WakeSignalled(t.Context()); return err }},
		{"signals of sagas in memory", 40, func() error {
			got, err := j.Signals(t.Context(), s.waiting[:5])
			require.Len(t, got, 5)
			return err
		}},
		{"heartbeat", 40, func() error { return j.Heartbeat(t.Context(), engine, time.Hour) }},
		{"sweep", mostPages, func() error { _, err := j.Sweep(t.Context(), 1000); return err }},
		{"stats", 1000, func() error { _, err := j.Stats(t.Context()); return err }},
		{"send", 40, func() error {
			id := s.waiting[0]
			wakeAt := queryRow[time.Time](t, look, "select wake_at from saga where id = $1", id)
			require.NoError(t, j.Send(t.Context(), journal.Signal{ID: id, Name: "trip.other", Value: []byte("{}")}, journal.Audit{}))
			exec(t, look, "delete from saga_signal where name = 'trip.other'") // the statement is to store it when it is explained
			exec(t, look, "update saga set wake_at = $2 where id = $1", id, wakeAt)
			return nil
		}},
	} {
		requireQuick(t, look, q.name, q.most, func() []pgx.TraceBatchQueryData {
			l.sent = nil
			require.NoError(t, q.send(), q.name)
			return l.sent
		})
	}
}

func (s *sleepers) testEngine(t *testing.T, look *pgxpool.Pool) {
	const connections, signals = 4, 100
	waiting := func() int {
		return queryRow[int](t, look, `select count(*) from saga where status = 1 and clean
			and engine = '00000000-0000-0000-0000-000000000000' and wake_at > clock_timestamp() + interval '1 day'`)
	}
	all := waiting()
	require.Equal(t, *asleep/2*2, all)
	other := s.operator(t, look)
	j := &claimCounter{Journal: openOn(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = connections })}
	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	e := s.open(t, j, 20*time.Millisecond)
	t.Cleanup(func() { closeEngine(t, e) })
	until(t, "the engine has polled", func() bool { return j.polls.Load() >= 20 })
	heldHeap, heldGoroutines := heapInUse()-heap, runtime.NumGoroutine()-goroutines
	t.Logf("with %d sagas asleep the engine holds %d KB and %d goroutines", all, heldHeap>>10, heldGoroutines)
	require.Zero(t, j.claimed.Load(), "they stay asleep")
	require.Equal(t, all, waiting())
	require.Less(t, heldHeap, 2<<20)
	require.Less(t, heldGoroutines, 50)

	sent, booked := make(map[journal.ID]bool), make(map[journal.ID]bool)
	for range signals {
		id := s.next(t)
		sent[id] = true
		require.NoError(t, approved.Send(t.Context(), other, id, verdict{"ann"}))
	}
	for range signals {
		select {
		case got := <-s.booked:
			booked[got.id] = true
		case <-time.After(time.Minute):
			require.FailNow(t, "a signal woke nobody", "%d of %d sagas went on", len(booked), signals)
		}
	}
	require.Equal(t, sent, booked)
	until(t, "they end", func() bool { return queryRow[int](t, look, "select count(*) from saga where status = 3") == signals })
	require.Equal(t, all-signals, waiting(), "the others wait")
	require.EqualValues(t, signals, j.claimed.Load())
}

// BenchmarkAsleep measures a poll of an engine beside sagas that sleep or wait for a signal. It also measures the time from
// Send to the next step of the saga, under a hundred signals a second: sent to the engine that waits, and to another
// process, whose signals the engine finds within a Poll of 100 ms. The flag pgjournal.asleep is the number of sagas.
func BenchmarkAsleep(b *testing.B) {
	look := durable(b)
	s := fillAsleep(b, look, *asleep)
	j := openOn(b, look, pgjournal.Config{})
	b.Run(fmt.Sprintf("poll/sagas=%d", *asleep), func(b *testing.B) {
		engine, plans := beat(b, j, 10*time.Hour), s.plans(b, look)
		claim := journal.ClaimRequest{Engine: engine, Plans: plans, Deferred: plans, Limit: 100, Backoff: time.Minute}
		b.ReportAllocs()
		for b.Loop() {
			got, err := j.Claim(b.Context(), claim)
			require.NoError(b, err)
			require.Empty(b, got)
		}
		b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "poll-ms")
	})
	e := s.open(b, j, 100*time.Millisecond)
	b.Cleanup(func() { closeEngine(b, e) })
	for _, to := range []struct {
		name string
		saga.Signaller
	}{{"engine", e}, {"operator", s.operator(b, look)}} {
		b.Run(fmt.Sprintf("signal/to=%s/sagas=%d", to.name, *asleep), func(b *testing.B) {
			var sends sync.WaitGroup
			sent := make(map[journal.ID]time.Time)
			clock := time.NewTicker(10 * time.Millisecond)
			defer clock.Stop()
			for b.Loop() {
				<-clock.C
				id := s.next(b)
				sent[id] = time.Now()
				sends.Go(func() {
					if err := approved.Send(b.Context(), to.Signaller, id, verdict{"ann"}); err != nil {
						b.Error(err)
					}
				})
			}
			sends.Wait()
			var took []time.Duration
			for len(took) < len(sent) {
				got := <-s.booked
				took = append(took, got.at.Sub(sent[got.id]))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
