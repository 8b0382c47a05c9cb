package pgjournal_test

import (
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// For a longer run: go test -run 'TestKill|TestDrain' -pgjournal.kills 100 -pgjournal.unowned 10000 -timeout 2h.
var (
	kills   = flag.Int("pgjournal.kills", 1, "how often a process is killed at each point")
	unowned = flag.Int("pgjournal.unowned", 500, "how many unowned sagas two processes share")
)

// A process dies at each point between two events that the database or a callee sees. These
// points are before and after each statement, before each call, after each answer, and at the
// end. A living process takes over. Each call and each undo happens once at most, and every saga
// ends.
func TestKill_atEachPoint(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	peer := engineOn(t, j, c)
	t.Run("points", func(t *testing.T) {
		for _, refuse := range []bool{false, true} {
			for _, when := range []string{beforeStatement, afterStatement, atStepBoundary} {
				t.Run(fmt.Sprintf("%s, refused %v", when, refuse), func(t *testing.T) {
					t.Parallel()
					for round := range *kills {
						k := &killed{T: t, journal: j, look: look, callees: c, peer: peer}
						for k.at(killPoint{When: when, N: int64(len(k.trips) + 1)}, refuse, round) {
						}
						// A call is two points, and the end is one; a statement is one. On a
						// slow machine there are more: a call is tried again, a lease beaten.
						least := map[bool]int{false: 4, true: 6}[refuse]
						if when == atStepBoundary {
							least = map[bool]int{false: 2*3 + 1, true: 2*5 + 1}[refuse]
						}
						require.GreaterOrEqual(t, len(k.trips), least)
						k.checkAll()
					}
				})
			}
		}
	})
}

// killed is what became of the sagas of one way to be killed.
type killed struct {
	*testing.T
	journal journal.Journal
	look    *pgxpool.Pool
	callees *callees
	peer    *saga.Engine
	trips   []journey
	lapses  []time.Time // when their owners' leases had ended
}

func (k *killed) key(in journey) childkey.Key {
	k.Helper()
	key, err := childkey.FromParts("trip", in.Trip)
	require.NoError(k, err)
	return key
}

func (k *killed) id(in journey) journal.ID { return journal.IDOf("", "trip", k.key(in)) }

// at reports whether a process was killed there; else it came to its end.
func (k *killed) at(point killPoint, refuse bool, round int) bool {
	k.Helper()
	in := journey{Trip: fmt.Sprintf("%s %d %v %d", point.When, point.N, refuse, round), Refuse: refuse}
	c := spawn(k.T, roleRun, job{
		Database: k.look.Config().ConnString(), Callees: k.callees.url, In: in, Kill: point, MaxRecoveryAttempts: 1000,
	})
	err := <-c.done
	if err == nil {
		require.Empty(k, c.out.String())
		return false
	}
	require.ErrorContains(k, err, "killed", "%s", &c.out)
	c.lapse(k.T, k.look, k.id(in))
	k.trips, k.lapses = append(k.trips, in), append(k.lapses, time.Now())
	return true
}

// checkAll calls again as the caller. This call attaches to the saga that is taken over.
func (k *killed) checkAll() {
	k.Helper()
	var slowest time.Duration
	for i, in := range k.trips {
		_, err := trip.Run(k.Context(), k.peer, k.key(in), in)
		if in.Refuse {
			require.ErrorIs(k, err, saga.ErrCompensated, in.Trip)
		} else {
			require.NoError(k, err, in.Trip)
		}
		r, err := k.journal.Read(k.Context(), k.id(in))
		require.NoError(k, err)
		k.callees.check(k, in.Trip, r.Status, in.Trip)
		if r.Fence > 1 {
			slowest = max(slowest, r.FinishedAt.Sub(k.lapses[i]))
		}
	}
	k.Logf("%d sagas; the last one taken over was over %v after its owner's lease had ended", len(k.trips), slowest.Round(time.Millisecond))
}

// Two processes share unowned sagas: each goes to one of them, and each call is sent once.
func TestDrain(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	dead := beat(t, j, time.Hour)
	together(32, func(n int) {
		for i := n; i < *unowned; i += 32 {
			startTrip(t, j, dead, journey{Trip: fmt.Sprint(i), Refuse: i%10 == 0})
		}
	})
	todo := job{Database: look.Config().ConnString(), Callees: c.url, Lease: 15 * time.Second, MaxActive: min(*unowned/4, saga.DefaultMaxActive)}
	drains := spawnDrains(t, look, 2, todo)
	begun := time.Now()
	c.holdUntilShared(t, look, dead, 2, func() { require.NoError(t, j.Leave(t.Context(), dead)) })
	for left := int64(1); left > 0; time.Sleep(20 * time.Millisecond) { // for as long as the test may take
		st, err := j.Stats(t.Context())
		require.NoError(t, err)
		left = st.ByStatus[journal.Running] + st.ByStatus[journal.Compensating]
	}
	t.Logf("%d sagas in %v", *unowned, time.Since(begun).Round(time.Millisecond))
	for _, p := range drains {
		p.end(t)
	}
	require.Equal(t, *unowned, queryRow[int](t, look, "select count(*) from saga where status in (3, 4) and fence = 2 and recovery_attempts = 0"))
	for i := range *unowned {
		ended := journal.Completed
		if i%10 == 0 {
			ended = journal.Compensated
		}
		c.check(t, fmt.Sprint(i), ended, "of two processes")
	}
	for key, n := range c.deliveries() {
		if n != 1 {
			t.Errorf("a call was sent %d times, want 1 (key %s)", n, key)
		}
	}
}

// A saga under which every process dies is put aside after a few of them, and the
// others get on.
func TestPoison(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	const others = 50
	request := func(trip string) journal.ID {
		key, err := childkey.FromParts("trip", trip)
		require.NoError(t, err)
		req, err := deadly.Request(key, journey{Trip: trip})
		require.NoError(t, err)
		_, _, err = j.Start(t.Context(), req)
		require.NoError(t, err)
		return req.ID
	}
	poison := request("poison")
	for i := range others {
		request(fmt.Sprint(i))
	}
	// From the second death on each saga waits by its ID, longer each time. The others seldom
	// meet the poison again, and never as often as MaxRecoveryAttempts.
	todo := job{Database: look.Config().ConnString(), Callees: c.url, MaxRecoveryAttempts: 5, Lease: 2 * time.Second}
	for deaths := 0; ; deaths++ { // a supervisor
		p := spawn(t, roleDrain, todo)
		r, err := p.until(t, j, poison, journal.Stuck)
		if err == nil {
			until(t, "the others are over", func() bool {
				return queryRow[int](t, look, "select count(*) from saga where status = 3") == others
			})
			p.end(t)
			require.LessOrEqual(t, deaths, todo.MaxRecoveryAttempts, "processes that died")
			require.Equal(t, journal.ReasonRecoveryAttempts, r.StuckOn.Reason)
			break
		}
		require.ErrorContains(t, err, "killed", "%s", &p.out)
		p.lapse(t, look, poison)
	}
}

// until waits until the saga has that status, or the process is dead.
func (c *child) until(t *testing.T, j journal.Journal, id journal.ID, status journal.Status) (journal.Record, error) {
	t.Helper()
	for {
		select {
		case err := <-c.done:
			return journal.Record{}, err
		case <-time.After(10 * time.Millisecond):
		}
		r, err := j.Read(t.Context(), id)
		require.NoError(t, err)
		if r.Status == status {
			return r, nil
		}
	}
}

// Postgres is restarted, and killed, while sagas are running. The engine continues where it was,
// and no outcome is lost and no call runs twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	j, _ := openAt(t, cluster, pgjournal.Config{})
	c := newCallees(t)
	e := engineWith(t, j, c, saga.Config{Poll: quickPoll})
	const sagas = 60
	var over atomic.Int32
	const callers = 6
	together(1+callers, func(n int) {
		if n == callers {
			breakServer(t, cluster, &over, sagas)
			return
		}
		for i := n; i < sagas; i += callers {
			in := journey{Trip: fmt.Sprint(i), Refuse: i%5 == 0}
			key, err := childkey.FromParts("trip", in.Trip)
			if err != nil {
				t.Error(err)
			}
			for { // as a caller does: again, with the same key
				_, err = trip.Run(t.Context(), e, key, in)
				if err == nil || errors.Is(err, saga.ErrCompensated) || t.Context().Err() != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			over.Add(1)
			r := ended(t, j, journal.IDOf("", "trip", key))
			c.check(t, in.Trip, r.Status, "while Postgres was restarted")
		}
	})
}

// breakServer restarts the server when a third of the sagas is over, and kills it when two
// thirds are.
func breakServer(t *testing.T, cluster *pgtest.Cluster, over *atomic.Int32, sagas int32) {
	for over.Load() < sagas/3 {
		time.Sleep(time.Millisecond)
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	for over.Load() < 2*sagas/3 {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(cluster.Kill(), cluster.Restart(t.Context())); err != nil {
		t.Error(err)
	}
}
