package pgjournal_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// turnBack does to the tables what a clock does that goes back an hour: all their times are to come.
func turnBack(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	exec(t, look, "update saga set wake_at = wake_at + interval '1 hour', slept_at = slept_at + interval '1 hour'")
	exec(t, look, "update saga_engine set lease_until = lease_until + interval '1 hour'")
}

// If the clock goes back, a saga that sleeps is claimed early: its next owner waits by the difference.
func TestClock_wakesSleepers(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	engine := beat(t, j, time.Hour)
	r := start(t, j, engine)
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{completed("a.b")}, WakeAt: r.Now.Add(time.Minute)})
	claim := func() []journal.Record {
		t.Helper()
		got, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 10})
		require.NoError(t, err)
		return got
	}
	require.Empty(t, claim())
	turnBack(t, look)
	got := claim()
	require.Len(t, got, 1)
	require.True(t, got[0].Clean)
	require.Empty(t, claim())
	write(t, j, got[0], journal.Write{WakeAt: got[0].Now.Add(time.Minute)})
	require.Empty(t, claim(), "it sleeps by the new time")
}

// If the clock goes back, the next heartbeat shortens the leases of all other engines to what they asked
// for. An engine that lives keeps its sagas, and those of a dead one have no owner when the lease ends.
func TestClock_boundsLeases(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	engine, dead, left := beat(t, j, time.Minute), beat(t, j, 50*time.Millisecond), beat(t, j, time.Minute)
	lives := start(t, j, beat(t, j, 5*time.Minute))
	orphan := start(t, j, dead)
	require.NoError(t, j.Leave(t.Context(), left))
	turnBack(t, look)
	require.NoError(t, j.Heartbeat(t.Context(), engine, time.Minute))
	for id, want := range map[journal.EngineID]time.Duration{engine: time.Minute, dead: 50 * time.Millisecond, lives.Engine: 5 * time.Minute} {
		var end, now time.Time
		require.NoError(t, look.QueryRow(t.Context(), "select lease_until, clock_timestamp() from saga_engine where id = $1", [16]byte(id)).Scan(&end, &now))
		require.LessOrEqual(t, end.Sub(now), want)
	}
	until(t, "the dead engine's saga is claimed", func() bool {
		got, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 10})
		require.NoError(t, err)
		return len(got) == 1 && got[0].ID == orphan.ID
	})
	require.NoError(t, j.Heartbeat(t.Context(), lives.Engine, 5*time.Minute))
	require.EqualValues(t, lives.Engine, queryRow[[16]byte](t, look, "select engine from saga where id = $1", [16]byte(lives.ID)))
}
