package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// told waits until the channel is closed. It may be called in any goroutine.
func told(tb testing.TB, what string, ended <-chan struct{}) {
	tb.Helper()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		tb.Errorf("waited too long until told of %s", what)
	}
}

// kinds counts the statements of a pool by their purpose.
type kinds struct {
	claims, reads, polls atomic.Int64
	notes                atomic.Int64 // the polls that also write that somebody waits
}

func (k *kinds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.HasPrefix(data.SQL, `insert into "public".idempotency `):
		k.claims.Add(1)
	case strings.Contains(data.SQL, "synchronous_standby_names"):
		k.reads.Add(1)
	case strings.Contains(data.SQL, "unnest"):
		k.polls.Add(1)
		if strings.Contains(data.SQL, "set waiters") {
			k.notes.Add(1)
		}
	}
	return ctx
}

func (k *kinds) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (k *kinds) all() int64 { return k.claims.Load() + k.reads.Load() + k.polls.Load() }

// A pollWindow is a time in which polls are counted.
type pollWindow struct {
	kinds  *kinds
	began  time.Time
	before int64
}

func (k *kinds) window() pollWindow {
	began := time.Now() // before the counter is read: every counted poll must be in the window
	return pollWindow{k, began, k.polls.Load()}
}

func (w pollWindow) polls() int64 { return w.kinds.polls.Load() - w.before }

// requireShared fails unless one poller can have sent all polls of the window. A poller rests for at least 5 ms, and
// one of its polls may have begun before the window. With a listening connection a poll can be two statements. The
// number of waiters does not matter.
func (w pollWindow) requireShared(t *testing.T, listen bool) {
	t.Helper()
	polls := w.polls()
	elapsed := time.Since(w.began)
	most := int64(elapsed/(5*time.Millisecond)) + 2
	if listen {
		most *= 2
	}
	require.LessOrEqual(t, polls, most, "polls in %v", elapsed)
}

// A thousand callers wait for a thousand keys that another process runs. Each caller costs a claim that comes too
// late, the read behind it, and a read when it is told. All callers share the polls, whose number depends only on the
// time.
func TestWatch_statementsPerWaiter(t *testing.T) {
	t.Parallel()
	const waiters = 1000
	for _, listen := range []bool{false, true} {
		t.Run(fmt.Sprintf("listen %v", listen), func(t *testing.T) {
			t.Parallel()
			owners, look := open(t, pgstore.Config{})
			cfg := pgstore.Config{SeparateCommits: true} // a read can be that of many callers otherwise
			if listen {
				cfg.Listen = look.Config().ConnConfig
			}
			k := new(kinds)
			s := openOn(t, look, cfg, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = k })
			k.reads.Store(0)            // Open asks for the standbys as well
			runs := make(chan struct{}) // until all wait
			process := func(s store.Store) func(i int) (int, error) {
				const patience = 10 * time.Minute // also on a machine that is busy with other things
				g, err := server.NewGuard(s, server.Unscoped, server.Config{
					Wait: patience, StoreTimeout: patience, Lease: patience,
				})
				require.NoError(t, err)
				return func(i int) (int, error) {
					return doOnce(t.Context(), g, i, runs)
				}
			}
			run, wait := process(owners), process(s)
			var wg sync.WaitGroup
			call := func(process func(int) (int, error), i int) {
				wg.Go(func() {
					if got, err := process(i); err != nil || got != i {
						t.Errorf("call %d = %d, error %v", i, got, err)
					}
				})
			}
			for i := range waiters {
				call(run, i)
			}
			until(t, "all run", func() bool {
				return queryRow[int](t, look, "select count(*) from idempotency where state = 1") == waiters
			})
			all := k.window()
			for i := range waiters {
				call(wait, i)
			}
			until(t, "all wait", func() bool {
				return k.reads.Load() >= waiters && (!listen || queryRow[int](t, look, "select count(*) from idempotency where waiters") == waiters)
			})
			waiting := k.window()
			until(t, "it polls", func() bool { return waiting.polls() >= 8 })
			waiting.requireShared(t, listen)
			close(runs)
			wg.Wait()
			all.requireShared(t, listen)
			require.LessOrEqual(t, k.claims.Load(), int64(waiters))
			require.LessOrEqual(t, k.reads.Load(), int64(2*waiters))
			t.Logf("%d claims, %d reads, %d shared polls", k.claims.Load(), k.reads.Load(), k.polls.Load())
		})
	}
}

// doOnce is a call of the i-th key: it answers with i when the run may end.
func doOnce(ctx context.Context, g *server.Guard, i int, runs <-chan struct{}) (int, error) {
	task := server.Task{Name: "count", Scope: "tenant", Effect: server.Keyed}
	got, _, err := server.Do(ctx, g, task, childkey.MustParse(fmt.Sprintf("key-%d", i)), i, func(_ context.Context, i int) (int, error) {
		<-runs
		return i, nil
	})
	if err != nil {
		return 0, fmt.Errorf("call %d: %w", i, err)
	}
	return got, nil
}

// If several waits begin while a note is running, their runs are noted together.
func TestWatch_notesTogether(t *testing.T) {
	t.Parallel()
	k := new(kinds)
	look := pgtest.NewPool(t, pgstore.Migrate)
	s := openOn(t, look, pgstore.Config{Listen: look.Config().ConnConfig}, size(1), func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = k })
	owners := make([]store.Owner, 50)
	for i := range owners {
		owners[i] = claim(t, s)
	}
	watch := func(o store.Owner) {
		_, stop := s.Watch(o.ID, o.Fence)
		t.Cleanup(stop)
	}
	noted := func(n int) func() bool {
		return func() bool { return queryRow[int](t, look, "select count(*) from idempotency where waiters") == n }
	}
	watch(owners[0])
	until(t, "it listens", s.Listening)
	until(t, "the first is noted", noted(1))
	before := k.notes.Load()
	tx, _ := begin(t, s) // a note has to wait for its connection
	for _, o := range owners[1:] {
		watch(o)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	until(t, "all are noted", noted(len(owners)))
	require.LessOrEqual(t, k.notes.Load()-before, int64(2), "the note that waited, and one for who came meanwhile")
}

// While nobody waits, the store sends no statement.
func TestWatch_quietWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	k := new(kinds)
	s, _ := open(t, pgstore.Config{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = k })
	for range 3 {
		o := claim(t, s)
		_, stop := s.Watch(o.ID, o.Fence)
		before := k.polls.Load()
		until(t, "it polls", func() bool { return k.polls.Load() > before+3 })
		stop()
		stop()
		until(t, "it is quiet", func() bool {
			before := k.all()
			time.Sleep(300 * time.Millisecond) // a poll would come several times
			return k.all() == before
		})
	}
}

// Close ends all waiting.
func TestWatch_close(t *testing.T) {
	t.Parallel()
	for _, listen := range []bool{false, true} {
		look := pgtest.NewPool(t, pgstore.Migrate)
		var cfg pgstore.Config
		if listen {
			cfg.Listen = look.Config().ConnConfig
		}
		s := openOn(t, look, cfg)
		o := claim(t, s)
		ended, stop := s.Watch(o.ID, o.Fence)
		s.Close()
		told(t, "the end of the store", ended)
		stop()
		ended, stop = s.Watch(o.ID, o.Fence)
		told(t, "the end before", ended)
		stop()
		require.False(t, s.Listening())
	}
}

// If the server cannot be asked, the waiters are told.
func TestWatch_serverGone(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	cfg := look.Config()
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	s, err := pgstore.New(pool, pgstore.Config{})
	require.NoError(t, err)
	defer s.Close()
	o := claim(t, s)
	ended, stop := s.Watch(o.ID, o.Fence)
	defer stop()
	pool.Close()
	told(t, "polls that fail", ended)
}

// A poll looks up every run in the key's index, for any number of records and
// any estimate of the planner.
func TestWatch_looksRecordsUp(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select gen_random_uuid(), gen_random_uuid(), 1, 1, 2, 1, now(), now(), now() from generate_series(1, 20000)`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, look, "analyze idempotency")
		}
		for _, file := range []string{"ended.sql", "expect.sql"} {
			q, err := pgkit.LoadQuery(os.DirFS("query"), file, "")
			require.NoError(t, err)
			st := q.Bind(pgx.NamedArgs{"keys": make([][16]byte, 1000), "fences": make([]int64, 1000)})
			lines, err := look.Query(t.Context(), "explain "+st.SQL, st.Args...)
			require.NoError(t, err)
			plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
			require.NoError(t, err)
			require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan on idempotency", "%s, analyzed %v", file, analyzed)
		}
	}
}
