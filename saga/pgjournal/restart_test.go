package pgjournal_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Postgres is restarted, and then killed, while two processes take over the sagas of a third one.
// No saga is lost, no call is sent twice, and callers that wait are told the journal's outcome.
func TestRestart_whileSagasAreTakenOver(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	j, look := openAt(t, cluster, pgjournal.Config{})
	c := newCallees(t)
	const sagas, refused = 200, 40
	trips := make([]journey, sagas)
	dead := beat(t, j, time.Hour)
	for i := range trips {
		trips[i] = journey{Trip: fmt.Sprint(i), Refuse: i < refused}
		startTrip(t, j, dead, trips[i])
	}
	restarts := breakServerAt(t, c, cluster, (3*sagas+2*refused)/3)

	// Long enough that nobody takes over from those who take over.
	const lease = 5 * time.Minute
	todo := job{Database: look.Config().ConnString(), Callees: c.url, Lease: lease, MaxActive: sagas / 4}
	drains := spawnDrains(t, look, 2, todo)
	// The callers need an engine. It takes over one saga at a time beside the two processes.
	asker := engineWith(t, j, c, saga.Config{Lease: lease, Poll: quickPoll, MaxActive: 1})
	c.holdUntilShared(t, look, dead, 3, func() { require.NoError(t, j.Leave(t.Context(), dead)) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	together(10, func(n int) {
		for i := n; i < sagas; i += 10 {
			askFor(ctx, t, c, j, asker, trips[i])
		}
	})
	for _, p := range drains {
		p.end(t)
	}
	require.EqualValues(t, 2, restarts.Load(), "the server was restarted too late")
	look.Reset() // of connections from before
	require.Equal(t, sagas, queryRow[int](t, look, "select count(*) from saga where status in (3, 4) and fence = 2 and recovery_attempts = 0"))
	for key, n := range c.deliveries() {
		require.Equal(t, 1, n, "a call was sent so often (key %s)", key)
	}
}

// askFor asks for a trip, as a caller, until it is told the outcome. It compares this outcome
// with the journal and the callees.
func askFor(ctx context.Context, t *testing.T, c *callees, j journal.Journal, e *saga.Engine, in journey) {
	key, err := childkey.FromParts("trip", in.Trip)
	if err != nil {
		t.Error(err)
	}
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) { // as a caller does: again, with the same key
		got, err := trip.Run(ctx, e, key, in)
		var told journal.Status
		switch {
		case err == nil && got == ticket{"tour"}:
			told = journal.Completed
		case errors.Is(err, saga.ErrCompensated):
			told = journal.Compensated
		default:
			continue
		}
		r := ended(t, j, journal.IDOf("", "trip", key))
		if r.Status != told || (told == journal.Compensated) != in.Refuse {
			t.Errorf("%s is %v, refused %v, and its caller was told %v", in.Trip, r.Status, in.Refuse, told)
		}
		c.check(t, in.Trip, told, "while Postgres was restarted")
		return
	}
	t.Errorf("nobody could tell what became of %s", in.Trip)
}

// breakServerAt restarts the server when so many calls have arrived, and kills it when
// twice as many have. It returns how often it did that.
func breakServerAt(t *testing.T, c *callees, cluster *pgtest.Cluster, third int) *atomic.Int32 {
	var calls, restarts atomic.Int32
	c.onArrival(func(string) {
		var err error
		switch int(calls.Add(1)) {
		case third:
			err = cluster.Restart(t.Context())
		case 2 * third:
			err = errors.Join(cluster.Kill(), cluster.Restart(t.Context()))
		default:
			return
		}
		if err != nil {
			t.Error(err)
		}
		restarts.Add(1)
	})
	return &restarts
}
