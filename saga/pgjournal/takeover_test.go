package pgjournal_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An owner is killed in the middle of a step, just after it extended its lease, and a
// peer sends the call again within that lease and a second. All times are by the clock
// of this process.
//
// Not parallel: it measures how long something takes.
func TestTakeOver_isInTime(t *testing.T) {
	const lease, most = 3 * time.Second, 4 * time.Second
	j, look := open(t, pgjournal.Config{})
	c := newCallees(t)
	arrivals := hotelArrivals(c)
	slowest := watchMachine(t, look)
	todo := job{
		Database: look.Config().ConnString(), Callees: c.url, In: journey{Trip: "killed"}, Lease: lease, MaxRecoveryAttempts: 1000,
		Poll: saga.DefaultPoll,
	}
	peer := spawn(t, roleDrain, todo)
	owner := spawn(t, roleRun, todo)
	<-arrivals
	key, err := childkey.FromParts("trip", todo.In.Trip)
	require.NoError(t, err)
	id := journal.IDOf("", "trip", key)
	const leaseOf = "select e.lease_until from saga s join saga_engine e on e.id = s.engine where s.id = $1"
	before := queryRow[time.Time](t, look, leaseOf, [16]byte(id))
	until(t, "the owner extends its lease", func() bool {
		return queryRow[time.Time](t, look, leaseOf, [16]byte(id)).After(before)
	})
	require.NoError(t, owner.Kill())
	killed := time.Now()
	took := (<-arrivals).Sub(killed)
	require.Error(t, <-owner.done)
	r := ended(t, j, id)
	peer.end(t)
	stood := slowest()
	t.Logf("the peer's first call came %v after the owner's death, with a lease of %v; a query that does nothing took %v at most",
		took.Round(time.Millisecond), lease, stood.Round(time.Millisecond))
	require.LessOrEqual(t, took, most+2*stood) // nobody is faster than the machine
	require.Greater(t, took, lease/2-2*stood, "its owner had a lease")
	require.Equal(t, journal.Completed, r.Status)
	require.EqualValues(t, 2, r.Fence)
	c.check(t, todo.In.Trip, r.Status, "of a killed owner")
}

// hotelArrivals returns when calls to book a hotel arrive. The first is not answered
// before the second one is there.
func hotelArrivals(c *callees) <-chan time.Time {
	arrivals := make(chan time.Time, 100)
	again := make(chan struct{})
	var mu sync.Mutex
	n := 0
	c.onArrival(func(path string) {
		if path != "/hotel" {
			return
		}
		arrivals <- time.Now()
		mu.Lock()
		n++
		mine := n
		mu.Unlock()
		switch mine {
		case 1:
			<-again
		case 2:
			close(again)
		}
	})
	return arrivals
}

// watchMachine returns what returns how long a query that does nothing took at most
// since then: it needs this process, the server, and a processor for each.
func watchMachine(t *testing.T, look *pgxpool.Pool) func() time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var slowest time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			time.Sleep(10 * time.Millisecond) // a busy machine takes longer, which is what is measured
			if _, err := look.Exec(ctx, "select 1"); err == nil {
				slowest = max(slowest, time.Since(begun))
			}
		}
	})
	end := func() time.Duration {
		cancel()
		wg.Wait()
		return slowest
	}
	t.Cleanup(func() { end() })
	return end
}

// The owner is killed while it undoes the steps before a refused one. The process that takes
// over, and every later one, returns the refusal as the callee wrote it.
func TestTakeOver_tellsWhyItFailed(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	c := newCallees(t)
	undoing, killed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(killed) })
	t.Cleanup(release) // however the test ends
	arrives := sync.OnceFunc(func() { close(undoing) })
	c.onArrival(func(path string) {
		if path == "/hotel/drop" {
			arrives()
			<-killed
		}
	})
	todo := job{
		Database: look.Config().ConnString(), Callees: c.url, In: journey{Trip: "full", Refuse: true}, Lease: time.Second, MaxRecoveryAttempts: 1000,
		Poll: quickPoll,
	}
	owner := spawn(t, roleRun, todo)
	<-undoing
	require.NoError(t, owner.Kill())
	require.Error(t, <-owner.done)
	release()
	key, err := childkey.FromParts("trip", todo.In.Trip)
	require.NoError(t, err)
	for range 2 { // the process that ends it, and one that reads it
		_, err = trip.Run(t.Context(), engineOn(t, j, c), key, todo.In)
		require.ErrorIs(t, err, saga.ErrCompensated)
		var failed *saga.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "tour.book", failed.FailedStep)
		require.Equal(t, http.StatusPaymentRequired, failed.HTTPStatus)
		require.Equal(t, wire.Code("sold-out"), failed.Code)
		var problem struct{ Detail string }
		require.NoError(t, failed.Decode(&problem))
		require.Equal(t, "No seats.", problem.Detail)
	}
	r, err := j.Read(t.Context(), journal.IDOf("", "trip", key))
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Fence)
	c.check(t, todo.In.Trip, r.Status, "of a killed owner")
}
