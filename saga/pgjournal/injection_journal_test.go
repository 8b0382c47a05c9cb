package pgjournal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An operation of the journal, and the saga that it leaves when it has happened.
type operation struct {
	name string
	// put leaves what the operation begins with, and returns a function that
	// does it, with the same arguments every time.
	put  func(t *testing.T, j journal.Journal) (id journal.ID, do func(ctx context.Context) error)
	want func(r journal.Record, err error) bool
}

func at(status journal.Status, revision int64) func(journal.Record, error) bool {
	return func(r journal.Record, err error) bool {
		return err == nil && r.Status == status && r.Revision == revision
	}
}

// sweeping is done in steps: what failed may have come as far as this.
const sweeping = "sweep"

var operations = []operation{
	{"start", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		req := newRequest(beat(t, j, time.Hour))
		return req.ID, func(ctx context.Context) error {
			_, created, err := j.Start(ctx, req)
			if err == nil && !created {
				err = errors.New("the saga is somebody else's")
			}
			return err
		}
	}, at(journal.Running, 1)},
	{"append", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		w := journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}}
		return r.ID, func(ctx context.Context) error { return j.Append(ctx, ownerOf(r), w) }
	}, at(journal.Running, 2)},
	{"append of a large result", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		w := journal.Write{Revision: 2, Entries: []journal.Entry{withResult("a.b", make([]byte, 40<<10))}}
		return r.ID, func(ctx context.Context) error { return j.Append(ctx, ownerOf(r), w) }
	}, func(r journal.Record, err error) bool {
		return err == nil && r.Revision == 2 && r.Corrupt == nil && len(r.Entries[0].Result) == 40<<10
	}},
	{"append of the end", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		w := journal.Write{Revision: 2, Status: journal.Completed, Result: []byte("1"), Keep: time.Hour}
		return r.ID, func(ctx context.Context) error { return j.Append(ctx, ownerOf(r), w) }
	}, at(journal.Completed, 2)},
	{"heartbeat", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		return r.ID, func(ctx context.Context) error { return j.Heartbeat(ctx, r.Engine, time.Hour) }
	}, at(journal.Running, 1)},
	{"leave", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		return r.ID, func(ctx context.Context) error { return j.Leave(ctx, r.Engine) }
	}, at(journal.Running, 1)},
	{"claim", func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r, engine := start(t, j, journal.EngineID{}), beat(t, j, time.Hour)
		return r.ID, func(ctx context.Context) error {
			claimed, err := j.Claim(ctx, journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 100})
			if err != nil || len(claimed) > 0 {
				return err
			}
			// An engine that does not know the fate of its claim looks for its own sagas.
			mine, err := j.List(ctx, journal.ListRequest{Engine: engine, Limit: 100})
			if err == nil && len(mine) == 0 {
				err = errors.New("nobody's saga was not claimed")
			}
			return err
		}
	}, at(journal.Running, 2)},
	{sweeping, func(t *testing.T, j journal.Journal) (journal.ID, func(context.Context) error) {
		r := start(t, j, beat(t, j, time.Hour))
		require.NoError(t, j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Status: journal.Completed}))
		return r.ID, func(ctx context.Context) error { _, err := j.Sweep(ctx, 1000); return err }
	}, func(_ journal.Record, err error) bool { return errors.Is(err, journal.ErrNotFound) }},
}

// Each operation that failed in some round trip can be sent again, as it is, and
// then has happened once. One that said that nothing has happened was right.
func TestInjection_operations(t *testing.T) {
	t.Parallel()
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			i := new(pgkittest.Injector)
			j, _ := open(t, pgjournal.Config{}, i.Under)
			for range 4 {
				_, do := op.put(t, j)
				require.NoError(t, do(t.Context()))
			}
			var id journal.ID
			var do func(context.Context) error
			var failed error
			happened := func() bool { return op.want(j.Read(t.Context(), id)) }
			shows := false // one can see whether it has happened
			i.EveryFault(t, func() {
				id, do = op.put(t, j)
				shows = op.name != sweeping && !happened()
			}, func(ctx context.Context) {
				failed = do(ctx)
			}, func(t *testing.T, at string) {
				if shows && happened() && !errors.Is(failed, journal.ErrFateUnknown) {
					require.NoError(t, failed, "%s, and it had happened", at)
				}
				require.Eventually(t, func() bool { return do(t.Context()) == nil }, time.Minute, 5*time.Millisecond, at)
				r, err := j.Read(t.Context(), id)
				require.True(t, op.want(r, err), "%s: record %+v, error %v", at, r, err)
			})
		})
	}
}

// A verb is not repeated: whoever lost its answer looks. It happened once or not at
// all, and so did its line in the audit log.
func TestInjection_change(t *testing.T) {
	t.Parallel()
	i := new(pgkittest.Injector)
	j, look := open(t, pgjournal.Config{}, i.Under)
	var was journal.Record
	i.EveryFault(t, func() { was = start(t, j, beat(t, j, time.Hour)) }, func(ctx context.Context) {
		_, _, _ = j.Change(ctx, journal.Change{ID: was.ID, Revision: 1, Status: journal.Abandoned, Keep: time.Hour, By: someone})
	}, func(t *testing.T, at string) {
		r, won, err := j.Change(t.Context(), journal.Change{ID: was.ID, Revision: 1, Status: journal.Abandoned, Keep: time.Hour, By: someone})
		require.NoError(t, err, at)
		require.Equal(t, journal.Abandoned, r.Status, at)
		log, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: was.ID, Limit: 10})
		require.NoError(t, err, at)
		require.Len(t, log, 1, "%s: won %v", at, won)
	})
	require.Equal(t, queryRow[int](t, look, "select count(*) from saga where status = 6"), queryRow[int](t, look, "select count(*) from saga_audit"))
}
