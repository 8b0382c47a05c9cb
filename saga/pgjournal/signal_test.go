package pgjournal_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server"
)

type verdict struct{ By string }

var approved = saga.NewSignal[verdict]("trip.approved")

// approvalOf is a saga that waits for a verdict for so long; 0: for as long as it takes. Its result is who gave it, or
// "nobody".
func approvalOf(d time.Duration) *saga.Definition[string, string] {
	return saga.MustDefine("approval", 1, func(b *saga.Builder[string, string]) {
		wait := saga.Await(b, approved)
		by := saga.Map(wait.Output(), func(v verdict) string { return v.By })
		if d > 0 {
			by = saga.Map(wait.Timeout(d).Optional().Or(saga.Const(b, verdict{"nobody"})), func(v verdict) string { return v.By })
		}
		saga.Return(b, by)
	})
}

func approvalID(key childkey.Key) journal.ID { return journal.IDOf("", "approval", key) }

// waiters opens an engine for a saga of that kind.
func waiters(tb testing.TB, j journal.Journal, d *saga.Definition[string, string], poll time.Duration) *saga.Engine {
	tb.Helper()
	e, err := saga.Open(tb.Context(), j, saga.Config{Definitions: []saga.AnyDefinition{d}, Lease: 2 * time.Second, Poll: poll})
	require.NoError(tb, err)
	tb.Cleanup(func() { closeEngine(tb, e) })
	return e
}

func untilAsleep(tb testing.TB, j journal.Journal, id journal.ID) {
	tb.Helper()
	until(tb, "the saga sleeps", func() bool {
		r, err := j.Read(tb.Context(), id)
		return err == nil && r.Engine.IsZero() && r.Clean && r.FirstClaimedAt != time.Time{}
	})
}

func sendTx(ctx context.Context, tx pgx.Tx, id journal.ID, by string, cfg pgjournal.StartConfig) error {
	return pgjournal.Send(ctx, tx, approved, id, verdict{by}, cfg)
}

// A signal commits and rolls back with the user's rows, also before its saga starts, and the saga goes on within a Poll of an engine.
func TestSend_inTransaction(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, "create table hooks (what text)")
	d := approvalOf(0)
	e := waiters(t, j, d, 20*time.Millisecond)
	for _, before := range []bool{false, true} {
		key := childkey.MustNew()
		id := approvalID(key)
		if !before {
			_, err := d.Start(t.Context(), e, key, "x")
			require.NoError(t, err)
			untilAsleep(t, j, id)
		}
		do := func(by string, end error) error {
			return pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "insert into hooks values ($1)", by); err != nil {
					return err
				}
				return errors.Join(sendTx(t.Context(), tx, id, by, j.StartConfig()), end)
			})
		}
		require.ErrorIs(t, do("rolled back", errRollback), errRollback)
		require.NoError(t, do("ann", nil))
		require.NoError(t, do("ann", nil), "again")
		require.ErrorIs(t, do("bob", nil), saga.ErrSignalReused)
		out, err := d.Run(t.Context(), e, key, "x")
		require.NoError(t, err)
		require.Equal(t, "ann", out)
		require.NoError(t, do("ann", nil), "after the end")
		require.ErrorIs(t, do("bob", nil), saga.ErrSignalReused)
	}
	key := childkey.MustNew()
	_, err := d.Start(t.Context(), e, key, "x")
	require.NoError(t, err)
	_, err = e.Cancel(t.Context(), approvalID(key), someone)
	require.NoError(t, err)
	_, err = d.Run(t.Context(), e, key, "x")
	require.ErrorIs(t, err, saga.ErrCancelled)
	err = pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error { return sendTx(t.Context(), tx, approvalID(key), "ann", j.StartConfig()) })
	require.ErrorIs(t, err, saga.ErrTooLate)

	db := stdlib.OpenDBFromPool(look)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	key = childkey.MustNew()
	require.NoError(t, pgjournal.SendSQL(t.Context(), tx, approved, approvalID(key), verdict{"ann"}, j.StartConfig()))
	require.NoError(t, pgjournal.SendSQL(t.Context(), tx, approved, approvalID(key), verdict{"ann"}, j.StartConfig()))
	require.NoError(t, tx.Commit())
	out, err := d.Run(t.Context(), e, key, "x")
	require.NoError(t, err)
	require.Equal(t, "ann", out)
}

func TestSend_refused(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	require.ErrorIs(t, sendTx(t.Context(), nil, journal.ID{1}, "ann", pgjournal.StartConfig{}), pgjournal.ErrArgument)
	require.ErrorIs(t, pgjournal.SendSQL(t.Context(), nil, approved, journal.ID{1}, verdict{}, pgjournal.StartConfig{}), pgjournal.ErrArgument)
	require.ErrorIs(t, j.Send(t.Context(), journal.Signal{ID: journal.ID{1}, Name: "\xff", Value: []byte("1")}, journal.Audit{}), pgjournal.ErrArgument)
	require.ErrorIs(t, j.Send(t.Context(), journal.Signal{ID: journal.ID{1}, Name: "a.b"}, journal.Audit{}), pgjournal.ErrArgument)
	require.NoError(t, pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
		require.ErrorIs(t, pgjournal.Send(t.Context(), tx, saga.Signal[int]{}, journal.ID{1}, 1, pgjournal.StartConfig{}), saga.ErrSignal)
		require.ErrorIs(t, sendTx(t.Context(), tx, journal.ID{1}, "ann", pgjournal.StartConfig{Schema: "no good"}), pgjournal.ErrArgument)
		require.ErrorIs(t, sendTx(t.Context(), tx, journal.ID{1}, "ann", pgjournal.StartConfig{Codec: (*server.AESGCM)(nil)}), pgjournal.ErrConfig)
		return nil
	}))
	require.Zero(t, queryRow[int](t, look, "select count(*) from saga_signal"))
}

// The transaction of a signal that is open while its saga starts, waits and sleeps wakes it by its commit.
func TestSend_openWhileTheSagaStarts(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	d := approvalOf(0)
	e := waiters(t, j, d, 20*time.Millisecond)
	key := childkey.MustNew()
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, sendTx(t.Context(), tx, approvalID(key), "ann", j.StartConfig()))
	_, err = d.Start(t.Context(), e, key, "x")
	require.NoError(t, err)
	untilAsleep(t, j, approvalID(key))
	require.NoError(t, tx.Commit(t.Context()))
	out, err := d.Run(t.Context(), e, key, "x")
	require.NoError(t, err)
	require.Equal(t, "ann", out)
}

// The end of a wait waits for a transaction that sends the signal: its commit or rollback decides.
func TestEndWait_waitsForATransaction(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		j, look := open(t, pgjournal.Config{})
		r := start(t, j, beat(t, j, time.Hour))
		tx, err := look.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, sendTx(t.Context(), tx, r.ID, "ann", j.StartConfig()))
		var ended journal.Signal
		end := inBackground(func() (err error) {
			ended, err = j.EndWait(t.Context(), ownerOf(r), approved.Name())
			return err
		})
		until(t, "the end of the wait waits for a lock", func() bool {
			return queryRow[bool](t, look, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'saga_signal' and datname = current_database())")
		})
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
		}
		require.NoError(t, <-end)
		require.Equal(t, commit, ended.Value != nil)
		err = j.Send(t.Context(), journal.Signal{ID: r.ID, Name: approved.Name(), Value: []byte(`{"By":"ann"}`)}, journal.Audit{})
		if commit {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, saga.ErrTooLate)
		}
	}
}

// A Send that meets the write that gives the saga up, in either order, makes it due. Both orders are forced by locks.
func TestSend_besideGivingUp(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	locked := func(pattern string) func() bool {
		return func() bool {
			return queryRow[bool](t, look, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query ~ $1 and datname = current_database())", pattern)
		}
	}
	send := func(id journal.ID) error {
		return j.Send(t.Context(), journal.Signal{ID: id, Name: approved.Name(), Value: []byte(`{}`)}, journal.Audit{})
	}
	requireDue := func(id journal.ID) {
		t.Helper()
		r, err := j.Read(t.Context(), id)
		require.NoError(t, err)
		require.True(t, r.Engine.IsZero())
		require.False(t, r.WakeAt.After(r.Now), "the saga sleeps on")
	}
	// The give-up has the row, and commits after the Send has looked.
	r := start(t, j, beat(t, j, time.Hour))
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `update saga set engine = '00000000-0000-0000-0000-000000000000', clean = true, revision = 2,
		wake_at = clock_timestamp() + interval '1 hour', slept_at = clock_timestamp() where id = $1`, [16]byte(r.ID))
	require.NoError(t, err)
	sent := inBackground(func() error { return send(r.ID) })
	until(t, "Send waits for the row", locked("saga_signal"))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-sent)
	requireDue(r.ID)
	// The Send has the row, and commits after the give-up has looked.
	r = start(t, j, beat(t, j, time.Hour))
	text, err := pgkit.LoadQuery(os.DirFS("query"), "send.sql", "")
	require.NoError(t, err)
	tx, err = look.Begin(t.Context())
	require.NoError(t, err)
	st := text.Bind(pgx.NamedArgs{
		"id": [16]byte(r.ID), "name": approved.Name(), "value": []byte(`{}`), "retention": time.Hour, "verb": "", "actor": "", "reason": "", "lock_timeout": "10s",
	})
	require.NoError(t, st.Err())
	_, err = tx.Exec(t.Context(), st.SQL, st.Args...)
	require.NoError(t, err)
	given := inBackground(func() error {
		return j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, WakeAt: r.Now.Add(time.Hour)})
	})
	until(t, "the give-up waits for the row", locked("revision = o.revision"))
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-given)
	requireDue(r.ID)
}

// Engines of two journals and a sender race at the end of each wait: exactly one wins, and both sides agree.
func TestSend_besideTheTimeout(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	d := approvalOf(400 * time.Millisecond)
	first := waiters(t, j, d, 10*time.Millisecond)
	waiters(t, openOn(t, look, pgjournal.Config{}), d, 10*time.Millisecond)
	desk, err := saga.NewOperator(openOn(t, look, pgjournal.Config{}))
	require.NoError(t, err)
	var sent, late atomic.Int32
	together(40, func(i int) {
		key := childkey.MustNew()
		if _, err := d.Start(t.Context(), first, key, "x"); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(380*time.Millisecond + time.Duration(i)*time.Millisecond) // around the end; either is right
		said := approved.Send(t.Context(), desk, approvalID(key), verdict{"ann"})
		out, err := d.Run(t.Context(), first, key, "x")
		switch {
		case err != nil || said != nil && !errors.Is(said, saga.ErrTooLate):
			t.Error(err, said)
		case said == nil && out != "ann", said != nil && out != "nobody":
			t.Errorf("Send said %v, and the saga had %q", said, out)
		case said == nil:
			sent.Add(1)
		default:
			late.Add(1)
		}
	})
	t.Logf("%d were in time, %d too late", sent.Load(), late.Load())
}

// A value is sealed, and bound to its saga and name.
func TestSend_sealed(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
	r, other := start(t, j, beat(t, j, time.Hour)), start(t, j, beat(t, j, time.Hour))
	secret := journal.Signal{ID: r.ID, Name: "a.b", Value: []byte(`"a secret"`)}
	for range 2 {
		require.NoError(t, j.Send(t.Context(), secret, journal.Audit{}))
	}
	require.NotContains(t, string(queryRow[[]byte](t, look, "select value from saga_signal")), "secret")
	found, err := j.Signals(t.Context(), []journal.ID{r.ID})
	require.NoError(t, err)
	require.Equal(t, []journal.Signal{secret}, found)
	exec(t, look, "update saga_signal set saga = $1", [16]byte(other.ID))
	found, err = j.Signals(t.Context(), []journal.ID{other.ID})
	require.NoError(t, err)
	require.ErrorIs(t, found[0].Corrupt, journal.ErrCorrupt)
	require.Nil(t, found[0].Value)
	secret.ID = other.ID
	require.ErrorIs(t, j.Send(t.Context(), secret, journal.Audit{}), journal.ErrCorrupt)
	end, err := j.EndWait(t.Context(), ownerOf(other), "a.b")
	require.NoError(t, err)
	require.ErrorIs(t, end.Corrupt, journal.ErrCorrupt)
}

// A signal without a saga is kept for SignalRetention. One whose saga is there is kept, however old it is.
func TestSweep_signals(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	sweepsSignals(t, j, look)
}

func sweepsSignals(t *testing.T, j *pgjournal.Journal, look *pgxpool.Pool) {
	t.Helper()
	r := start(t, j, beat(t, j, time.Hour))
	send := func(id journal.ID) {
		require.NoError(t, j.Send(t.Context(), journal.Signal{ID: id, Name: "a.b", Value: []byte("1")}, journal.Audit{}))
	}
	send(r.ID)
	send(journal.ID{1})
	sweep := func(want int) {
		t.Helper()
		_, err := j.Sweep(t.Context(), 100)
		require.NoError(t, err)
		require.Equal(t, want, queryRow[int](t, look, "select count(*) from saga_signal"))
	}
	sweep(2)
	require.WithinRange(t, queryRow[time.Time](t, look, "select min(check_at) from saga_signal"),
		time.Now().Add(journal.SignalRetention-time.Hour), time.Now().Add(journal.SignalRetention+time.Hour))
	exec(t, look, "update saga_signal set check_at = statement_timestamp() - interval '1 second'")
	sweep(1)
	require.Equal(t, [16]byte(r.ID), queryRow[[16]byte](t, look, "select saga from saga_signal"))
	require.True(t, queryRow[bool](t, look, "select check_at > clock_timestamp() + interval '1 day' from saga_signal"), "the next look is later")
}

// What an engine asks each Poll reads the signals that have not woken their saga, and no others; the sweep reads the old
// ones by their index.
func TestPlans_ofSignals(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	withoutStatistics(t, look)
	exec(t, look, "alter table saga_signal set (autovacuum_enabled = off)")
	fill(t, look, 5000, aPlan, due)
	exec(t, look, `insert into saga_signal (saga, name, value, woken, check_at)
		select id, 'a.' || n, '1', true, clock_timestamp() + interval '1 day' from saga, generate_series(1, 2) n`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, look, "analyze")
		}
		for _, file := range []string{"unheard.sql", "hear.sql", "signals.sql", "send.sql", "confirm_sent.sql", "end_wait.sql", "sweep.sql", "sweep_engines.sql"} {
			q, err := pgkit.LoadQuery(os.DirFS("query"), file, "")
			require.NoError(t, err)
			require.NoError(t, pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
				nodes, err := pgkittest.GenericPlan(t.Context(), tx, q.SQL())
				require.NotRegexp(t, `Seq Scan on saga(_signal)? `, strings.Join(nodes, "\n"), file)
				return err
			}))
		}
	}
}

func TestDistributed_signals(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	j := openOn(t, look, pgjournal.Config{})
	sweepsSignals(t, j, look)
	d := approvalOf(0)
	e := waiters(t, j, d, 50*time.Millisecond)
	for _, before := range []bool{true, false} {
		key := childkey.MustNew()
		if !before {
			_, err := d.Start(t.Context(), e, key, "x")
			require.NoError(t, err)
			untilAsleep(t, j, approvalID(key))
		}
		for range 2 {
			require.NoError(t, pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error { return sendTx(t.Context(), tx, approvalID(key), "ann", j.StartConfig()) }))
		}
		out, err := d.Run(t.Context(), e, key, "x")
		require.NoError(t, err)
		require.Equal(t, "ann", out)
	}
}
