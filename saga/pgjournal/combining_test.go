package pgjournal_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A flushCounter counts the transactions with writes of several callers.
type flushCounter struct {
	counter
	flushes atomic.Int64
}

func (c *flushCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.flushes.Add(1)
	return ctx
}

func (c *flushCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *flushCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A contender is a write, and what it must come to, alone or with others.
type contender struct {
	name  string
	do    func(ctx context.Context) error
	check func(t *testing.T, err error)
}

// Writes of all kinds wait behind one that waits for a lock, and then go in one
// transaction: each comes to what it would have come to alone.
func TestCombining(t *testing.T) {
	t.Parallel()
	c := new(flushCounter)
	j, look := open(t, pgjournal.Config{MaxFlushes: 1}, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 8
		cfg.ConnConfig.Tracer = c
	})
	for round := 0; ; round++ {
		held := start(t, j, beat(t, j, time.Hour))
		tx, err := look.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "select from saga where id = $1 for update", [16]byte(held.ID))
		require.NoError(t, err)
		first := inBackground(func() error {
			return j.Append(t.Context(), ownerOf(held), saga.Write{Revision: 2, Entries: []saga.Entry{completed("a.b")}})
		})
		until(t, "it waits for the lock", func() bool {
			return queryRow[bool](t, look, `select exists (select from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock')`)
		})
		all, before := contenders(t, j, look), c.flushes.Load()
		errs := make([]error, len(all))
		together(len(all), func(i int) { errs[i] = all[i].do(t.Context()) })
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-first)
		for i, a := range all {
			t.Run(a.name, func(t *testing.T) { a.check(t, errs[i]) })
		}
		if c.flushes.Load() > before {
			break
		}
		require.Less(t, round, 50, "no writes went together: this shows nothing")
	}
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
		for _, line := range genericPlan(t, look, "append_many") {
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
func genericPlan(t *testing.T, look *pgxpool.Pool, file string) []string {
	t.Helper()
	query := func(file string) string {
		q, err := pgkit.LoadQuery(os.DirFS("query"), file+".sql", "")
		require.NoError(t, err)
		return q.SQL()
	}
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), query("flush"), "50")
	require.NoError(t, err)
	nodes, err := pgtest.GenericPlan(t.Context(), tx, query(file))
	require.NoError(t, err)
	return nodes
}

func contenders(t *testing.T, j *pgjournal.Journal, look *pgxpool.Pool) []contender {
	t.Helper()
	engine := beat(t, j, time.Hour)
	refused := func(r saga.Record, o saga.Owner, revision int64) contender {
		return contender{"refused", func(ctx context.Context) error {
			return j.Append(ctx, o, saga.Write{Revision: revision, Entries: []saga.Entry{completed("x.y")}, Status: saga.Completed, Keep: time.Hour})
		}, func(t *testing.T, err error) {
			require.ErrorIs(t, err, saga.ErrLeaseLost)
			got, err := j.Read(t.Context(), r.ID)
			require.NoError(t, err)
			require.Equal(t, r.Revision, got.Revision)
			require.Empty(t, got.Entries)
		}}
	}
	written := func(name string, w saga.Write, check func(t *testing.T, r saga.Record)) contender {
		r := start(t, j, engine)
		w.Revision = 2
		return contender{name, func(ctx context.Context) error { return j.Append(ctx, ownerOf(r), w) }, func(t *testing.T, err error) {
			require.NoError(t, err)
			got, err := j.Read(t.Context(), r.ID)
			require.NoError(t, err)
			require.EqualValues(t, 2, got.Revision)
			check(t, got)
		}}
	}
	stranger, zombie, late, over := start(t, j, engine), start(t, j, engine), start(t, j, engine), start(t, j, engine)
	require.NoError(t, j.Append(t.Context(), ownerOf(over), saga.Write{Revision: 2, Status: saga.Completed, Keep: time.Hour}))
	over.Revision = 2
	repeated := start(t, j, engine)
	again := saga.Write{Revision: 2, Entries: []saga.Entry{completed("a.b")}}
	require.NoError(t, j.Append(t.Context(), ownerOf(repeated), again))
	full := start(t, j, engine)
	exec(t, look, "update saga set entry_room = 10 where id = $1", [16]byte(full.ID))
	fresh, taken := newRequest(engine), newRequest(engine)
	taken.ID = late.ID
	wake := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	cause := saga.Failure{Reason: saga.ReasonStep, Step: "a.b"}
	return []contender{
		refused(stranger, saga.Owner{ID: stranger.ID, Engine: newEngine(), Fence: 1}, 2),
		refused(zombie, saga.Owner{ID: zombie.ID, Engine: engine, Fence: 0}, 2),
		refused(late, ownerOf(late), 3),
		refused(over, ownerOf(over), 3),
		{"repeated", func(ctx context.Context) error { return j.Append(ctx, ownerOf(repeated), again) }, func(t *testing.T, err error) {
			require.NoError(t, err)
		}},
		{"without room", func(ctx context.Context) error { return j.Append(ctx, ownerOf(full), again) }, func(t *testing.T, err error) {
			require.NoError(t, err)
			require.Greater(t, queryRow[int](t, look, "select entry_room from saga where id = $1", [16]byte(full.ID)), 10, "it was compacted first")
		}},
		written("a step", saga.Write{Entries: []saga.Entry{completed("a.b")}, WakeAt: wake, DeadlineAt: wake}, func(t *testing.T, r saga.Record) {
			require.Len(t, r.Entries, 1)
			require.Equal(t, wake, r.WakeAt)
			require.Equal(t, wake, r.DeadlineAt)
			require.Equal(t, saga.Running, r.Status)
		}),
		written("a turn", saga.Write{Status: saga.Compensating, Cause: &cause}, func(t *testing.T, r saga.Record) {
			require.Equal(t, saga.Compensating, r.Status)
			require.False(t, r.Turned.IsZero())
			require.True(t, r.FinishedAt.IsZero())
			require.Equal(t, &cause, r.Cause)
		}),
		written("stuck", saga.Write{Status: saga.Stuck, StuckOn: &cause}, func(t *testing.T, r saga.Record) {
			require.Equal(t, saga.Stuck, r.Status)
			require.False(t, r.FinishedAt.IsZero())
			require.True(t, r.ExpiresAt.IsZero())
			require.Equal(t, &cause, r.StuckOn)
		}),
		written("the end", saga.Write{Status: saga.Completed, Result: []byte{}, Keep: time.Hour}, func(t *testing.T, r saga.Record) {
			require.Equal(t, saga.Completed, r.Status)
			require.Equal(t, time.Hour, r.ExpiresAt.Sub(r.FinishedAt))
			require.NotNil(t, r.Result)
		}),
		{"start", func(ctx context.Context) error { _, _, err := j.Start(ctx, fresh); return err }, func(t *testing.T, err error) {
			require.NoError(t, err)
			r, err := j.Read(t.Context(), fresh.ID)
			require.NoError(t, err)
			require.Equal(t, fresh.Input, r.Input)
			require.Equal(t, fresh.Key, r.Key)
			require.Equal(t, fresh.Timeout, r.DeadlineAt.Sub(r.CreatedAt))
			require.EqualValues(t, 1, r.Fence)
		}},
		{"start of one that is there", func(ctx context.Context) error {
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
	oldest, next := start(t, j, saga.EngineID{}), start(t, j, saga.EngineID{})
	engine := beat(t, j, time.Hour)
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "select from saga where id = $1 for update", [16]byte(oldest.ID))
	require.NoError(t, err)
	for _, want := range [][]saga.ID{{next.ID}, nil} {
		claimed, err := j.Claim(t.Context(), saga.ClaimRequest{Engine: engine, Plans: []saga.PlanHash{aPlan}, Limit: 1})
		require.NoError(t, err)
		require.Len(t, claimed, len(want))
		for i, r := range claimed {
			require.Equal(t, want[i], r.ID)
		}
	}
}
