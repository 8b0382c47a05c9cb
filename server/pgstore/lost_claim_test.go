package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A forgetfulServer has no process that writes its log before somebody waits for a commit. So a crash
// forgets a claim that did not wait.
type forgetfulServer struct {
	t       *testing.T
	cluster *pgtest.Cluster
	url     string
	guard   *server.Guard // of the process under test
}

func forgetful(t *testing.T, cfg server.Config) *forgetfulServer {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: map[string]string{
		"wal_writer_delay": "10s", "bgwriter_delay": "10s", "checkpoint_timeout": "1h", "autovacuum": "off",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s := &forgetfulServer{t: t, cluster: cluster}
	s.url, err = cluster.CreateDatabase(t.Context(), "shop")
	require.NoError(t, err)
	look := s.look()
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	exec(t, look, "create table effect (key text, by text)")
	s.guard = s.process(cfg)
	s.warm()
	return s
}

// look is a new pool: the connections of an old one are lost with the server.
func (s *forgetfulServer) look() *pgxpool.Pool {
	s.t.Helper()
	pool, err := pgxpool.New(s.t.Context(), s.url)
	require.NoError(s.t, err)
	s.t.Cleanup(pool.Close)
	return pool
}

// process is a process of its own, as far as the server sees.
func (s *forgetfulServer) process(cfg server.Config) *server.Guard {
	s.t.Helper()
	pool, err := pgxpool.ParseConfig(s.url)
	require.NoError(s.t, err)
	opened, err := pgstore.Open(s.t.Context(), pool, pgstore.Config{AllowNonDurable: true})
	require.NoError(s.t, err)
	s.t.Cleanup(opened.Close)
	g, err := server.NewGuard(opened, server.Unscoped, cfg)
	require.NoError(s.t, err)
	return g
}

// warm plans the statements.
func (s *forgetfulServer) warm() {
	s.t.Helper()
	for range 2 {
		_, err := s.do(s.guard, "warm-"+rand.Text(), "", func(ctx context.Context) error { return writes(ctx, "warm", "up") })
		require.NoError(s.t, err)
	}
}

func writes(ctx context.Context, key, by string) error {
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect values ($1, $2)", key, by)
	return err
}

// do does work once, and returns which caller's work was the one.
func (s *forgetfulServer) do(g *server.Guard, key, by string, work func(context.Context) error) (string, error) {
	return s.doFor(0, g, key, by, work)
}

func (s *forgetfulServer) doFor(wait time.Duration, g *server.Guard, key, by string, work func(context.Context) error) (string, error) {
	task := server.Task{Name: "charge", Scope: "tenant", Effect: server.Transactional, Wait: wait}
	did, _, err := server.Do(context.WithoutCancel(s.t.Context()), g, task, keyOf(s.t, key), 0, func(ctx context.Context, _ int) (string, error) {
		return by, work(ctx)
	})
	return did, err
}

// insist calls until it is served.
func (s *forgetfulServer) insist(g *server.Guard, key, by string) string {
	s.t.Helper()
	var did string
	until(s.t, key+" is served", func() (served bool) {
		var err error
		did, err = s.do(g, key, by, func(ctx context.Context) error { return writes(ctx, key, by) })
		return err == nil
	})
	return did
}

func (s *forgetfulServer) crash() {
	s.t.Helper()
	require.NoError(s.t, s.cluster.Kill())
	require.NoError(s.t, s.cluster.Restart(s.t.Context()))
}

func (s *forgetfulServer) effects(key string) int {
	s.t.Helper()
	return queryRow[int](s.t, s.look(), "select count(*) from effect where key = $1", key)
}

func (s *forgetfulServer) has(key string) bool {
	s.t.Helper()
	id := store.NewID("tenant", "", keyOf(s.t, key))
	return queryRow[bool](s.t, s.look(), "select exists (select from idempotency where key::text = $1)", id.String())
}

// A zombie is a run whose claim the crash has forgotten.
type zombie struct {
	key    string
	goOn   func()
	result <-chan error
}

// zombie returns a run whose claim is lost. begun: its transaction had a row by then. While the run
// waits for the crash, meanwhile is called. The server can have written the claim, when it began a
// new page of its log. Then the next key is tried.
func (s *forgetfulServer) zombie(begun bool, meanwhile func(key string)) zombie {
	s.t.Helper()
	for n := range 5 {
		z, lost := s.tryZombie(fmt.Sprint("order-", n), begun, func(key string) {
			if meanwhile != nil {
				meanwhile(key)
			}
			s.crash()
		})
		if lost {
			return z
		}
		z.goOn()
		<-z.result
		s.guard = s.process(server.Config{})
		s.warm()
	}
	s.t.Fatal("no claim was lost")
	return zombie{}
}

// tryZombie reports whether the claim is lost once crash returns.
func (s *forgetfulServer) tryZombie(key string, begun bool, crash func(key string)) (z zombie, lost bool) {
	s.t.Helper()
	claimed, resume, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := s.do(s.guard, key, "zombie", func(ctx context.Context) error {
			if begun {
				if err := writes(ctx, key, "zombie"); err != nil {
					return err
				}
			}
			once.Do(func() { close(claimed) })
			<-resume
			if begun {
				return nil
			}
			return writes(ctx, key, "zombie")
		})
		result <- err
	}()
	<-claimed
	z = zombie{key, sync.OnceFunc(func() { close(resume) }), result}
	s.t.Cleanup(z.goOn)
	require.True(s.t, s.has(key))
	crash(key)
	return z, !s.has(key)
}

// ends lets the run go on, and checks that it changes nothing.
func (z zombie) ends(t *testing.T) {
	t.Helper()
	z.goOn()
	err := <-z.result
	require.Error(t, err)
	if !errors.Is(err, &server.RefusedError{Code: wire.StoreUnavailable}) { // where its COMMIT met the crash
		require.ErrorIs(t, err, &server.RefusedError{Code: wire.LeaseLost})
	}
}

var begunOrNot = map[string]bool{"before its first statement": false, "in its transaction": true}

// The server crashes between a claim and its settlement, and forgets the claim. The run settles
// nothing and rolls back. The next call runs once.
func TestLostClaim_nextCallRuns(t *testing.T) {
	t.Parallel()
	for name, begun := range begunOrNot {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := forgetful(t, server.Config{})
			z := s.zombie(begun, nil)
			z.ends(t)
			require.Zero(t, s.effects(z.key))
			require.False(t, s.has(z.key))
			require.Equal(t, "next", s.insist(s.guard, z.key, "next"))
			require.Equal(t, "next", s.insist(s.guard, z.key, "another"))
			require.Equal(t, 1, s.effects(z.key))
		})
	}
}

// A duplicate in another process waited for the run. It runs in its place, beside the run that has
// the same fence, and every caller gets its answer.
func TestLostClaim_duplicateRuns(t *testing.T) {
	t.Parallel()
	for name, begun := range begunOrNot {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := forgetful(t, server.Config{})
			elsewhere := s.process(server.Config{})
			var served chan string // of the last key
			z := s.zombie(begun, func(key string) {
				_, err := s.doFor(-1, elsewhere, key, "duplicate", func(context.Context) error { return errors.New("ran beside the run") })
				require.ErrorIs(t, err, &server.RefusedError{Code: wire.InProgress})
				mine := make(chan string, 1)
				served = mine
				go func() { mine <- s.insist(elsewhere, key, "duplicate") }()
			})
			require.Equal(t, "duplicate", <-served)
			z.ends(t)
			require.Equal(t, 1, s.effects(z.key))
			require.Equal(t, "duplicate", s.insist(s.guard, z.key, "next"))
		})
	}
}

// An undo comes after the crash and finds nothing. The forward run goes on, and leaves no effect.
// A late copy of the forward call is refused.
func TestLostClaim_undoFindsNothing(t *testing.T) {
	t.Parallel()
	s := forgetful(t, server.Config{})
	undo := func(key string) (fate server.Fate, err error) {
		task := server.Task{Name: "refund", Scope: "tenant", Effect: server.Transactional, Cancels: keyOf(t, key), Wait: -1}
		_, _, err = server.Do(t.Context(), s.guard, task, keyOf(t, "undo-"+key), 0, func(ctx context.Context, _ int) (int, error) {
			var err error
			fate, err = server.Barrier(ctx)
			return 0, err
		})
		return fate, err
	}
	z := s.zombie(false, nil)
	var fate server.Fate
	until(t, "the undo is served", func() (served bool) {
		var err error
		fate, err = undo(z.key)
		return err == nil
	})
	require.Equal(t, server.NeverRan, fate)
	z.ends(t)
	require.Zero(t, s.effects(z.key))
	_, err := s.do(s.guard, z.key, "late", func(ctx context.Context) error { return writes(ctx, z.key, "late") })
	require.ErrorIs(t, err, &server.RefusedError{Code: wire.KeyCancelled})
}

// A take-over waits for the disk, so a crash in a further run forgets nothing.
func TestLostClaim_takeOverIsNotLost(t *testing.T) {
	t.Parallel()
	s := forgetful(t, server.Config{})
	_, err := s.do(s.guard, "k", "first", func(context.Context) error { return errors.New("not yet") })
	require.Error(t, err)
	claimed, resume, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := s.do(s.guard, "k", "second", func(ctx context.Context) error {
			once.Do(func() { close(claimed) })
			<-resume
			return writes(ctx, "k", "second")
		})
		result <- err
	}()
	<-claimed
	s.crash()
	require.Equal(t, []int64{1, 2}, queryRow[[]int64](t, s.look(),
		"select array[state, fence] from idempotency where created_at = (select max(created_at) from idempotency)"))
	close(resume)
	require.NoError(t, <-result)
	require.Equal(t, 1, s.effects("k"))
}

// The first crash forgets a claim, so no death is counted. After the lost connection the claims of
// the process wait for the disk, and the next death counts.
func TestLostClaim_nextDeathCounts(t *testing.T) {
	t.Parallel()
	s := forgetful(t, server.Config{})
	z := s.zombie(true, nil)
	z.ends(t)
	again, lost := s.tryZombie(z.key, true, func(string) { s.crash() })
	require.False(t, lost)
	look := s.look()
	lapse(t, look)
	require.Equal(t, "next", s.insist(s.process(server.Config{}), z.key, "next"))
	require.Equal(t, 1, queryRow[int](t, look, "select max(recovery_attempts) from idempotency"))
	again.ends(t)
	require.Equal(t, 1, s.effects(z.key))
}

// A standby that lacks the claim is promoted while the run goes on. The run began its transaction on
// the lost primary, or begins it on the new one. It settles nothing beside the run that has the same
// fence.
func TestLostClaim_failover(t *testing.T) {
	t.Parallel()
	for name, begun := range begunOrNot {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := false
			for n := 0; n < 3 && !lost; n++ { // the server can have written the claim
				primary, standby, url := replicated(t)
				s := &forgetfulServer{t: t, cluster: primary, url: url}
				look := s.look()
				require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
				exec(t, look, "create table effect (key text, by text)")
				exec(t, look, "alter system set wal_writer_delay = '10s'")
				exec(t, look, "select pg_reload_conf()")
				until(t, "the server has heard of it", func() bool { return queryRow[string](t, look, "show wal_writer_delay") == "10s" })
				s.guard = s.process(server.Config{})
				s.warm()
				elsewhere := s.process(server.Config{})
				var z zombie
				z, lost = s.tryZombie("order", begun, func(string) { failover(t, primary, standby) })
				if !lost {
					z.goOn()
					<-z.result
					continue
				}
				require.Equal(t, "next", s.insist(elsewhere, z.key, "next"))
				z.ends(t)
				require.Equal(t, 1, s.effects(z.key))
			}
			require.True(t, lost)
		})
	}
}
