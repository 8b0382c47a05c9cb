package memjournal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	sagatest.TestJournal(t, func(testing.TB) journal.Journal { return memjournal.New() })
}

// A journal has its own time zone, and its clock is an hour behind. Code that compares its times
// with the process's clock fails.
func TestJournal_otherClock(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("elsewhere", 5*3600)
	sagatest.TestJournal(t, func(testing.TB) journal.Journal {
		return memjournal.NewWith(memjournal.Config{Now: func() time.Time { return time.Now().Add(-time.Hour).In(zone) }})
	})
}

// In a bubble time is exact, and so are the ends of leases, waits and retentions.
func TestJournal_timesAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, engine, other := memjournal.New(), journal.EngineID{1}, journal.EngineID{2}
		claim := func() []journal.Record {
			got, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: other, Plans: []journal.PlanHash{{}}, Limit: 1})
			require.NoError(t, err)
			return got
		}
		require.NoError(t, j.Heartbeat(t.Context(), engine, 15*time.Second))
		require.NoError(t, j.Heartbeat(t.Context(), other, time.Hour))
		_, _, err := j.Start(t.Context(), journal.StartRequest{Engine: engine})
		require.NoError(t, err)
		time.Sleep(15*time.Second - time.Nanosecond)
		require.Empty(t, claim(), "claimed a nanosecond before the lease ended")
		time.Sleep(time.Nanosecond)
		got := claim()
		require.Len(t, got, 1, "not claimed at the end of the lease")

		o := journal.Owner{Engine: other, Fence: 2}
		require.NoError(t, j.Append(t.Context(), o, journal.Write{Revision: 3, Status: journal.Completed, Keep: time.Minute}))
		time.Sleep(time.Minute - time.Nanosecond)
		n, err := j.Sweep(t.Context(), 1)
		require.NoError(t, err)
		require.Zero(t, n)
		time.Sleep(time.Nanosecond)
		n, err = j.Sweep(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestJournal_badArguments(t *testing.T) {
	t.Parallel()
	j, ctx := memjournal.New(), t.Context()
	tests := []struct {
		name string
		do   func() error
	}{
		{"beat of nobody", func() error { return j.Heartbeat(ctx, journal.EngineID{}, time.Second) }},
		{"beat for no time", func() error { return j.Heartbeat(ctx, journal.EngineID{1}, 0) }},
		{"claim nothing", func() error { _, err := j.Claim(ctx, journal.ClaimRequest{}); return err }},
		{"list nothing", func() error { _, err := j.List(ctx, journal.ListRequest{}); return err }},
		{"sweep nothing", func() error { _, err := j.Sweep(ctx, 0); return err }},
		{"change to nothing", func() error { _, _, err := j.Change(ctx, journal.Change{}); return err }},
	}
	for _, tt := range tests {
		require.ErrorIs(t, tt.do(), memjournal.ErrArgument, tt.name)
	}
}

// A clock panics. It is called under the journal's lock; the panic passes on, and leaves neither the lock nor a half of a
// change behind.
func TestCallbacks_now(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	engine, id := journal.EngineID{1}, journal.ID{1}
	for name, call := range map[string]func(j *memjournal.Journal) error{
		"Start": func(j *memjournal.Journal) error {
			_, _, err := j.Start(ctx, journal.StartRequest{ID: journal.ID{2}, Engine: engine})
			return err
		},
		"Append": func(j *memjournal.Journal) error {
			return j.Append(ctx, journal.Owner{ID: id, Engine: engine, Fence: 1}, journal.Write{Revision: 2, Status: journal.Completed, Keep: time.Hour})
		},
		"Heartbeat": func(j *memjournal.Journal) error { return j.Heartbeat(ctx, engine, time.Hour) },
		"Leave":     func(j *memjournal.Journal) error { return j.Leave(ctx, engine) },
		"Claim": func(j *memjournal.Journal) error {
			_, err := j.Claim(ctx, journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{{}}, Limit: 1})
			return err
		},
		"Read": func(j *memjournal.Journal) error { _, err := j.Read(ctx, id); return err },
		"List": func(j *memjournal.Journal) error {
			_, err := j.List(ctx, journal.ListRequest{Engine: engine, Limit: 1})
			return err
		},
		"Sweep": func(j *memjournal.Journal) error { _, err := j.Sweep(ctx, 1); return err },
		"Stats": func(j *memjournal.Journal) error { _, err := j.Stats(ctx); return err },
		"Browse": func(j *memjournal.Journal) error {
			_, err := j.Reader().Browse(ctx, journal.BrowseRequest{Limit: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var panics bool
			j := memjournal.NewWith(memjournal.Config{Now: func() time.Time {
				if panics {
					panic("boom")
				}
				return time.Now()
			}})
			require.NoError(t, j.Heartbeat(ctx, engine, time.Minute))
			before, _, err := j.Start(ctx, journal.StartRequest{ID: id, Engine: engine})
			require.NoError(t, err)
			panics = true
			require.PanicsWithValue(t, "boom", func() { _ = call(j) })
			panics = false
			returned := make(chan error, 1)
			go func() {
				after, err := j.Read(ctx, id)
				after.Now = before.Now
				assert.Equal(t, before, after)
				stats, failure := j.Stats(ctx)
				assert.EqualValues(t, map[journal.Status]int64{journal.Running: 1}, stats.ByStatus)
				returned <- errors.Join(err, failure, call(j))
			}()
			select {
			case err := <-returned:
				require.NoError(t, err)
			case <-ctx.Done():
				require.Fail(t, "the journal is still locked")
			}
		})
	}
}
