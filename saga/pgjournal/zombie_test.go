package pgjournal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An owner stands still in the middle of a step for longer than its lease, as in a long pause of
// its machine. Meanwhile a peer ends the saga. After the pause the owner changes nothing, repeats
// no effect, and is told the outcome.
func TestZombie(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newCallees(t)
	engineOn(t, j, c)
	// No owner loses this lease on the way to its point, even on a slow machine. The lease has to
	// end by the owner's own clock.
	const lease = 6 * time.Second
	t.Run("points", func(t *testing.T) {
		for _, tt := range []struct {
			refuse bool
			point  killPoint
			hears  journal.EventKind
		}{
			{false, killPoint{When: duringCall, N: 2}, saga.EventLeaseLost},
			{false, killPoint{When: atStepBoundary, N: 3}, saga.EventLeaseLost}, // before the second call
			{false, killPoint{When: atStepBoundary, N: 4}, saga.EventLeaseLost}, // after it
			{false, killPoint{When: beforeWrite, N: 2}, saga.EventWriteRefused},
			{false, killPoint{When: beforeWrite, N: 3}, saga.EventWriteRefused}, // with the end
			{true, killPoint{When: beforeWrite, N: 3}, saga.EventWriteRefused},  // with the failure
			{true, killPoint{When: duringCall, N: 4}, saga.EventLeaseLost},      // the first undo
			{true, killPoint{When: beforeWrite, N: 4}, saga.EventWriteRefused},
		} {
			t.Run(fmt.Sprintf("%s %d, refused %v", tt.point.When, tt.point.N, tt.refuse), func(t *testing.T) {
				t.Parallel()
				tt.point.Stop = true
				in := journey{Trip: t.Name(), Refuse: tt.refuse}
				zombie := spawn(t, roleRun, job{
					Database: look.Config().ConnString(), Callees: c.url, In: in, Kill: tt.point,
					Lease: lease, MaxRecoveryAttempts: 1000, Hear: tt.hears,
				})
				r := takenOver(t, j, zombie, in)
				before := rowOf(t, look, r.ID)
				zombie.wake(t)
				require.NoError(t, <-zombie.done, "%s", &zombie.out)
				require.Equal(t, before, rowOf(t, look, r.ID), "what the owner wrote after it woke up")
				c.check(t, in.Trip, r.Status, "of a zombie")
			})
		}
	})
}

// takenOver waits until a saga is over that was begun by a process which stands still,
// and is a peer's.
func takenOver(t *testing.T, j journal.Journal, owner *child, in journey) journal.Record {
	t.Helper()
	key, err := childkey.FromParts("trip", in.Trip)
	require.NoError(t, err)
	var r journal.Record
	until(t, "a peer has brought the saga to its end", func() bool {
		select {
		case err := <-owner.done:
			t.Fatalf("the owner did not stand still: %v, %s", err, &owner.out)
		default:
		}
		var err error
		r, err = j.Read(t.Context(), journal.IDOf("", "trip", key))
		return err == nil && !r.Status.Active()
	})
	require.Greater(t, r.Fence, int64(1), "nobody took it over")
	return r
}

// rowOf returns all of a saga's row, and which version of it that is.
func rowOf(t *testing.T, look *pgxpool.Pool, id journal.ID) string {
	t.Helper()
	return queryRow[string](t, look, "select s.ctid || ' ' || s.xmin || ' ' || s::text from saga s where id = $1", [16]byte(id))
}
