package pgjournal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An owner stands still in the middle of a step for longer than its lease, as in a
// long pause of its machine, and a peer brings the saga to its end. Awake again the
// owner changes nothing, has nothing done twice, and is told.
func TestZombie(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 8 })
	c := newTown(t)
	engineOn(t, j, c)
	// Nobody loses it on the way to its point, also on a slow machine. It has to end by
	// the owner's own clock.
	const lease = 6 * time.Second
	t.Run("points", func(t *testing.T) {
		for _, tt := range []struct {
			refuse bool
			point  killPoint
			hears  saga.EngineEventKind
		}{
			{false, killPoint{When: duringCall, N: 2}, saga.EngineLeaseLost},
			{false, killPoint{When: atStepBoundary, N: 3}, saga.EngineLeaseLost}, // before the second call
			{false, killPoint{When: atStepBoundary, N: 4}, saga.EngineLeaseLost}, // after it
			{false, killPoint{When: beforeWrite, N: 2}, saga.EngineWriteRefused},
			{false, killPoint{When: beforeWrite, N: 3}, saga.EngineWriteRefused}, // with the end
			{true, killPoint{When: beforeWrite, N: 3}, saga.EngineWriteRefused},  // with the turn
			{true, killPoint{When: duringCall, N: 4}, saga.EngineLeaseLost},      // the first undo
			{true, killPoint{When: beforeWrite, N: 4}, saga.EngineWriteRefused},
		} {
			t.Run(fmt.Sprintf("%s %d, refused %v", tt.point.When, tt.point.N, tt.refuse), func(t *testing.T) {
				t.Parallel()
				tt.point.Stop = true
				in := journey{Trip: t.Name(), Refuse: tt.refuse}
				zombie := spawn(t, roleRun, job{
					Database: look.Config().ConnString(), Town: c.url, In: in, Kill: tt.point,
					Lease: lease, MaxDeaths: 1000, Hear: tt.hears,
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
func takenOver(t *testing.T, j saga.Journal, owner *child, in journey) saga.Record {
	t.Helper()
	key, err := childkey.FromParts("trip", in.Trip)
	require.NoError(t, err)
	var r saga.Record
	until(t, "a peer has brought the saga to its end", func() bool {
		select {
		case err := <-owner.done:
			t.Fatalf("the owner did not stand still: %v, %s", err, &owner.out)
		default:
		}
		var err error
		r, err = j.Read(t.Context(), saga.IDOf("", "trip", key))
		return err == nil && !r.Status.Driven()
	})
	require.Greater(t, r.Fence, int64(1), "nobody took it over")
	return r
}

// rowOf returns all of a saga's row, and which version of it that is.
func rowOf(t *testing.T, look *pgxpool.Pool, id saga.ID) string {
	t.Helper()
	return queryRow[string](t, look, "select s.ctid || ' ' || s.xmin || ' ' || s::text from saga s where id = $1", [16]byte(id))
}
