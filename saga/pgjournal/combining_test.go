package pgjournal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A contender is a write, and what it must come to, alone or with others.
type contender struct {
	name  string
	id    journal.ID // of the saga that it leaves as it wrote it
	do    func(ctx context.Context) error
	check func(t *testing.T, err error)
}

// openSingle returns a journal on a pool of one connection.
func openSingle(t *testing.T, look *pgxpool.Pool, cfg pgjournal.Config, changes ...func(*pgxpool.Config)) (*pgjournal.Journal, *pgxpool.Pool) {
	t.Helper()
	poolCfg := look.Config()
	poolCfg.MaxConns = 1
	for _, change := range changes {
		change(poolCfg)
	}
	pgjournal.Prepare(poolCfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), poolCfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	j, err := pgjournal.New(pool, cfg)
	require.NoError(t, err)
	t.Cleanup(j.Close)
	return j, pool
}

// flushing does all of it in one flush: it keeps the journal's one connection until all
// have come, one after the other. wait returns what came of them.
func flushing(t *testing.T, j *pgjournal.Journal, pool *pgxpool.Pool, all ...func() error) (wait func() []error) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	done := make([]<-chan error, len(all))
	for i, do := range all {
		done[i] = inBackground(do)
		until(t, "it waits", func() bool { return j.Queued() == i })
	}
	return func() []error {
		errs := make([]error, len(done))
		for i := range done {
			errs[i] = <-done[i]
		}
		return errs
	}
}

// Many writes in one flush have the same results as each write alone.
func TestCombining(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	t.Cleanup(func() { requireSound(t, look) })
	j, pool := openSingle(t, look, pgjournal.Config{})
	all := contenders(t, j, look)
	var dos []func() error
	var flushed [][16]byte
	for _, a := range all {
		dos = append(dos, func() error { return a.do(t.Context()) })
		if a.id != (journal.ID{}) {
			flushed = append(flushed, a.id)
		}
	}
	errs := flushing(t, j, pool, dos...)()
	for i, a := range all {
		t.Run(a.name, func(t *testing.T) { a.check(t, errs[i]) })
	}
	var starts, appends, commits int
	require.NoError(t, look.QueryRow(t.Context(), `select count(*) filter (where revision = 1), count(*) filter (where revision = 2), count(distinct xmin::text)
		from saga where id = any ($1)`, flushed).Scan(&starts, &appends, &commits))
	require.Equal(t, []int{2, 5, 1}, []int{starts, appends, commits}, "starts and writes of sagas, and their commits")
}

// Two flushes of different processes that need the same sagas must not lock them in
// opposite orders. Each goes by ID, whatever order its writes came in, and stores new
// sagas before it writes to others.
func TestCombining_order(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	j, pool := openSingle(t, look, pgjournal.Config{})
	engine := beat(t, j, time.Hour)
	const each = 6 // a page has room for all
	requests := make([]journal.StartRequest, 2*each)
	for i := range requests {
		requests[i] = newRequest(engine)
	}
	slices.SortFunc(requests, func(a, b journal.StartRequest) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	var dos []func() error
	for i := range each { // the last in order first, in the table as well
		r, created, err := j.Start(t.Context(), requests[2*i])
		require.NoError(t, err)
		require.True(t, created)
		dos = append(dos, func() error {
			return j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}})
		}, func() error {
			_, _, err := j.Start(t.Context(), requests[2*i+1])
			return err
		})
	}
	for _, err := range flushing(t, j, pool, dos...)() {
		require.NoError(t, err)
	}
	const written = "select array_agg(id order by ctid) = array_agg(id order by id) from saga where revision = $1"
	require.True(t, queryRow[bool](t, look, written, 1), "starts are not in order")
	require.True(t, queryRow[bool](t, look, written, 2), "writes are not in order")
	require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from saga"), "not one flush")
	require.True(t, queryRow[bool](t, look, `select max(cmin::text::int) filter (where revision = 1) < min(cmin::text::int) filter (where revision = 2)
		from saga`), "writes do not follow starts")
}

// By the planner's own estimate a flush can be a reason to read all sagas.
func TestCombining_looksSagasUp(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	engine := beat(t, j, time.Hour)
	for i := range 300 {
		start(t, j, engine)
		if i%100 == 99 {
			_, err := look.Exec(t.Context(), "analyze saga")
			require.NoError(t, err)
		}
		if i > 10 && i%100 != 99 {
			continue
		}
		for _, line := range slices.Concat(genericPlan(t, look, "append_many"), genericPlan(t, look, "finish_many")) {
			require.NotContains(t, line, "Seq Scan on saga", "with %d sagas", i)
			if strings.Contains(line, "Index Scan") {
				require.Contains(t, line, "saga_pkey", "with %d sagas", i)
				require.Contains(t, line, "Index Cond: (id = o.id)", "with %d sagas", i)
			}
		}
	}
}

// genericPlan is how the server means to do it whatever the arguments are, a line for
// each node.
func genericPlan(t *testing.T, look *pgxpool.Pool, form string) []string {
	t.Helper()
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), formOf(t, "flush").SQL(), "50")
	require.NoError(t, err)
	nodes, err := pgkittest.GenericPlan(t.Context(), tx, formOf(t, form).SQL())
	require.NoError(t, err)
	return nodes
}

func contenders(t *testing.T, j *pgjournal.Journal, look *pgxpool.Pool) []contender {
	t.Helper()
	engine := beat(t, j, time.Hour)
	refused := func(r journal.Record, o journal.Owner, revision int64) contender {
		return contender{"refused", journal.ID{}, func(ctx context.Context) error {
			return j.Append(ctx, o, journal.Write{Revision: revision, Entries: []journal.Entry{completed("x.y")}, Status: journal.Completed, Keep: time.Hour})
		}, func(t *testing.T, err error) {
			require.ErrorIs(t, err, journal.ErrLeaseLost)
			got, err := j.Read(t.Context(), r.ID)
			require.NoError(t, err)
			require.Equal(t, r.Revision, got.Revision)
			require.Empty(t, got.Entries)
		}}
	}
	written := func(name string, w journal.Write, check func(t *testing.T, r journal.Record)) contender {
		r := start(t, j, engine)
		w.Revision = 2
		return contender{name, r.ID, func(ctx context.Context) error { return j.Append(ctx, ownerOf(r), w) }, func(t *testing.T, err error) {
			require.NoError(t, err)
			got, err := j.Read(t.Context(), r.ID)
			require.NoError(t, err)
			require.EqualValues(t, 2, got.Revision)
			check(t, got)
		}}
	}
	stranger, zombie, late, over := start(t, j, engine), start(t, j, engine), start(t, j, engine), start(t, j, engine)
	require.NoError(t, j.Append(t.Context(), ownerOf(over), journal.Write{Revision: 2, Status: journal.Completed, Keep: time.Hour}))
	over.Revision = 2
	repeated := start(t, j, engine)
	again := journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}}
	require.NoError(t, j.Append(t.Context(), ownerOf(repeated), again))
	full := start(t, j, engine)
	exec(t, look, "update saga set entry_room = 10 where id = $1", [16]byte(full.ID))
	twice := start(t, j, engine)
	fresh, taken, startedTwice := newRequest(engine), newRequest(engine), newRequest(engine)
	taken.ID, taken.Key = late.ID, late.Key
	wake := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	cause := journal.Failure{Reason: journal.ReasonStep, Step: "a.b"}
	// A repeated write may share a flush with the first one. Both callers are told that the write
	// is there.
	appendTwice := contender{"twice", twice.ID, func(ctx context.Context) error { return j.Append(ctx, ownerOf(twice), again) }, func(t *testing.T, err error) {
		require.NoError(t, err)
	}}
	startTwice := contender{"start, twice", startedTwice.ID, func(ctx context.Context) error {
		_, created, err := j.Start(ctx, startedTwice)
		if err == nil && !created {
			err = errors.New("a start does not know itself")
		}
		return err
	}, func(t *testing.T, err error) { require.NoError(t, err) }}
	return []contender{
		appendTwice, appendTwice, startTwice, startTwice,
		refused(stranger, journal.Owner{ID: stranger.ID, Engine: newEngine(), Fence: 1}, 2),
		refused(zombie, journal.Owner{ID: zombie.ID, Engine: engine, Fence: 0}, 2),
		refused(late, ownerOf(late), 3),
		refused(over, ownerOf(over), 3),
		{"repeated", journal.ID{}, func(ctx context.Context) error { return j.Append(ctx, ownerOf(repeated), again) }, func(t *testing.T, err error) {
			require.NoError(t, err)
		}},
		{"without room", journal.ID{}, func(ctx context.Context) error { return j.Append(ctx, ownerOf(full), again) }, func(t *testing.T, err error) {
			require.NoError(t, err)
			require.Greater(t, queryRow[int](t, look, "select entry_room from saga where id = $1", [16]byte(full.ID)), 10, "it was compacted first")
		}},
		written("a step", journal.Write{Entries: []journal.Entry{completed("a.b")}, WakeAt: wake, DeadlineAt: wake}, func(t *testing.T, r journal.Record) {
			require.Len(t, r.Entries, 1)
			require.Equal(t, wake, r.WakeAt)
			require.Equal(t, wake, r.DeadlineAt)
			require.Equal(t, journal.Running, r.Status)
		}),
		written("a failure", journal.Write{Status: journal.Compensating, Cause: &cause}, func(t *testing.T, r journal.Record) {
			require.Equal(t, journal.Compensating, r.Status)
			require.False(t, r.FailedAt.IsZero())
			require.True(t, r.FinishedAt.IsZero())
			require.Equal(t, &cause, r.Cause)
		}),
		written("stuck", journal.Write{Status: journal.Stuck, StuckOn: &cause}, func(t *testing.T, r journal.Record) {
			require.Equal(t, journal.Stuck, r.Status)
			require.False(t, r.FinishedAt.IsZero())
			require.True(t, r.ExpiresAt.IsZero())
			require.Equal(t, &cause, r.StuckOn)
		}),
		written("the end", journal.Write{Status: journal.Completed, Result: []byte{}, Keep: time.Hour}, func(t *testing.T, r journal.Record) {
			require.Equal(t, journal.Completed, r.Status)
			require.Equal(t, time.Hour, r.ExpiresAt.Sub(r.FinishedAt))
			require.NotNil(t, r.Result)
		}),
		{"start", fresh.ID, func(ctx context.Context) error { _, _, err := j.Start(ctx, fresh); return err }, func(t *testing.T, err error) {
			require.NoError(t, err)
			r, err := j.Read(t.Context(), fresh.ID)
			require.NoError(t, err)
			require.Equal(t, fresh.Input, r.Input)
			require.Equal(t, fresh.Key, r.Key)
			require.Equal(t, r.CreatedAt, r.FirstClaimedAt)
			require.Zero(t, r.DeadlineAt)
			require.EqualValues(t, 1, r.Fence)
		}},
		{"start of one that is there", journal.ID{}, func(ctx context.Context) error {
			r, _, err := j.Start(ctx, taken)
			if err == nil && r.Key != late.Key {
				t.Errorf("a start of a saga that is there returned another one")
			}
			return err
		}, func(t *testing.T, err error) { require.NoError(t, err) }},
	}
}

// A claim waits for nobody: what somebody holds is left for the next.
func TestClaim_passesOverWhatIsHeld(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	oldest, next := start(t, j, journal.EngineID{}), start(t, j, journal.EngineID{})
	engine := beat(t, j, time.Hour)
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "select from saga where id = $1 for update", [16]byte(oldest.ID))
	require.NoError(t, err)
	for _, want := range [][]journal.ID{{next.ID}, nil} {
		claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 1})
		require.NoError(t, err)
		require.Len(t, claimed, len(want))
		for i, r := range claimed {
			require.Equal(t, want[i], r.ID)
		}
	}
}
