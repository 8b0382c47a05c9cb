package pgjournal_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// A localStep is one call of a local step, in a saga of its own.
type localStep struct {
	j    *pgjournal.Journal
	look *pgxpool.Pool
	saga journal.Record
	key  childkey.Key
}

type (
	stepFunc = func(ctx context.Context, tx pgx.Tx, in string) (string, error)
	undoFunc = func(ctx context.Context, tx pgx.Tx, in string, out *string) error
)

func newLocalStep(tb testing.TB, j *pgjournal.Journal, look *pgxpool.Pool) localStep {
	tb.Helper()
	exec(tb, look, "create table if not exists paid (what text)")
	return localStep{j, look, start(tb, j, beat(tb, j, time.Hour)), childkey.MustNew()}
}

func openLocalStep(tb testing.TB, cfg pgjournal.Config) localStep {
	tb.Helper()
	j, look := open(tb, cfg)
	return newLocalStep(tb, j, look)
}

// in returns ctx as an engine makes it for a step of the saga.
func (s localStep) in(ctx context.Context) context.Context {
	return wire.NewContext(ctx, wire.Inbound{Parent: s.saga.ID})
}

func (s localStep) run(ctx context.Context, fn stepFunc) (string, error) {
	return pgjournal.Local(s.j, fn)(s.in(ctx), saga.Call[string]{Key: s.key, Input: "tea"})
}

func (s localStep) undo(ctx context.Context, fn undoFunc) error {
	return pgjournal.UndoLocal(s.j, fn)(s.in(ctx), saga.UndoCall[string, string]{Key: childkey.MustNew(), Forward: s.key, Input: "tea"})
}

func (s localStep) paid(tb testing.TB) int {
	tb.Helper()
	return queryRow[int](tb, s.look, "select count(*) from paid")
}

func pay(ctx context.Context, tx pgx.Tx, in string) (string, error) {
	_, err := tx.Exec(ctx, "insert into paid values ($1)", in)
	return "paid " + in, err
}

func unpay(ctx context.Context, tx pgx.Tx, in string, _ *string) error {
	_, err := tx.Exec(ctx, "delete from paid where what = $1", in)
	return err
}

func neverPay(tb testing.TB) stepFunc {
	return func(context.Context, pgx.Tx, string) (string, error) {
		tb.Error("the function is called again")
		return "", nil
	}
}

// said is the outcome that err states for an engine; 0: none.
func said(err error) retry.Outcome {
	var failed *retry.Error
	if errors.As(err, &failed) {
		return failed.Outcome
	}
	return 0
}

func TestLocal_once(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	for range 3 {
		out, err := s.run(t.Context(), pay)
		require.NoError(t, err)
		require.Equal(t, "paid tea", out)
	}
	require.Equal(t, 1, s.paid(t))
	for range 2 {
		require.NoError(t, s.undo(t.Context(), func(ctx context.Context, tx pgx.Tx, in string, out *string) error {
			require.Equal(t, "paid tea", *out)
			_, err := tx.Exec(ctx, "insert into paid values ('back')")
			return err
		}))
	}
	require.Equal(t, 2, s.paid(t))
	_, err := s.run(t.Context(), neverPay(t))
	require.ErrorContains(t, err, "was undone", "a late copy")
	require.Equal(t, retry.Rejected, said(err))
}

// Attempts of one call at the same time, as of an owner that lost its lease: one runs, and all have its output.
func TestLocal_atOnce(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if out, err := s.run(t.Context(), pay); err != nil || out != "paid tea" {
				t.Error(out, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, s.paid(t))
}

// The undo of a step that was never committed bars it, whatever becomes of the undo.
func TestLocal_lateCopy(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	refused := errors.New("shipped")
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"nil", nil, nil},
		{"nothing to undo", saga.ErrNothingToUndo, saga.ErrNothingToUndo},
		{"refused", saga.Rejected(refused), refused},
		{"failed", refused, refused},
	} {
		s := newLocalStep(t, j, look)
		err := s.undo(t.Context(), func(_ context.Context, _ pgx.Tx, _ string, out *string) error {
			require.Nil(t, out, tt.name)
			return tt.err
		})
		require.ErrorIs(t, err, tt.want, tt.name)
		_, err = s.run(t.Context(), neverPay(t))
		require.Equal(t, retry.Rejected, said(err), tt.name)
		require.NoError(t, s.undo(t.Context(), func(_ context.Context, _ pgx.Tx, _ string, out *string) error {
			require.Nil(t, out, tt.name)
			require.NotErrorIs(t, tt.err, saga.ErrNothingToUndo, "such an undo has succeeded")
			return nil
		}))
	}
}

// The undo waits for an attempt that is still running, and undoes what it commits.
func TestLocal_undoWaits(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	runs, goes := make(chan struct{}), make(chan struct{})
	done := inBackground(func() error {
		_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			close(runs)
			<-goes
			return pay(ctx, tx, in)
		})
		return err
	})
	<-runs
	undone := inBackground(func() error { return s.undo(t.Context(), unpay) })
	until(t, "the undo waits for the lock", func() bool {
		return queryRow[bool](t, s.look, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())")
	})
	close(goes)
	require.NoError(t, <-done)
	require.NoError(t, <-undone)
	require.Zero(t, s.paid(t))
}

// What fn does wrong commits nothing, and says so. Then the step is tried again.
func TestLocal_commitsNothing(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	exec(t, look, "create table paid (what text); create table strict (id int unique deferrable initially deferred); insert into strict values (1)")
	failed := errors.New("no")
	begin := func(sql string) stepFunc {
		return func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			_, err := pay(ctx, tx, in)
			require.NoError(t, err)
			_, _ = tx.Exec(ctx, sql)
			return in, nil
		}
	}
	for _, tt := range []struct {
		name string
		fn   stepFunc
		text string
		want retry.Outcome
	}{
		{"an error", func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			_, err := pay(ctx, tx, in)
			return in, errors.Join(err, failed)
		}, "no", retry.NotSent},
		{"Permanent", func(context.Context, pgx.Tx, string) (string, error) { return "", saga.Permanent(failed) }, "no", retry.Unknown},
		{"NotSent", func(context.Context, pgx.Tx, string) (string, error) { return "", saga.NotSent(failed) }, "no", retry.NotSent},
		{"a failing statement is swallowed", begin("select 1/0"), "22012", retry.NotSent},
		{"a constraint fails at COMMIT", begin("insert into strict values (1)"), "23505", retry.NotSent},
		{"COMMIT as text", begin("commit"), "ends by itself", retry.NotSent},
		{"ROLLBACK and another transaction", begin("rollback; begin"), "ends by itself", retry.NotSent},
		{"ROLLBACK past the view, and another transaction", func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			_, err := tx.Conn().Exec(ctx, "rollback; begin")
			return in, err
		}, "ends by itself", retry.NotSent},
		{"Commit", func(ctx context.Context, tx pgx.Tx, in string) (string, error) { return in, tx.Commit(ctx) }, "ends by itself", retry.NotSent},
		{"rows are left open", func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			_, err := tx.Query(ctx, "select generate_series(1, 1000000)")
			return in, err
		}, "open rows", retry.NotSent},
		{"its session ends", begin("select pg_terminate_backend(pg_backend_pid())"), "conn", retry.NotSent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newLocalStep(t, j, look)
			_, err := s.run(t.Context(), tt.fn)
			require.ErrorContains(t, err, tt.text)
			require.Equal(t, tt.want, said(err))
			require.Zero(t, s.paid(t))
			out, err := s.run(t.Context(), pay)
			require.NoError(t, err)
			require.Equal(t, "paid tea", out)
			exec(t, look, "delete from paid")
		})
	}
	require.Zero(t, j.Pool().Stat().AcquiredConns())
}

func TestLocal_savepoint(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		failed := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select 1/0")
			return err
		})
		require.Error(t, failed)
		return pay(ctx, tx, in)
	})
	require.NoError(t, err)
	require.Equal(t, 1, s.paid(t))
}

func TestLocal_panic(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	require.PanicsWithValue(t, "boom", func() {
		_, _ = s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			_, _ = pay(ctx, tx, in)
			panic("boom")
		})
	})
	require.Zero(t, s.paid(t))
	require.Zero(t, s.j.Pool().Stat().AcquiredConns())
	_, err := s.run(t.Context(), pay)
	require.NoError(t, err)
}

// A function that works for longer than its attempt may, and looks at no ctx, commits nothing.
func TestLocal_outOfTime(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.run(ctx, func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		out, err := pay(ctx, tx, in)
		cancel()
		return out, err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, retry.NotSent, said(err))
	require.Zero(t, s.paid(t))
	_, err = s.run(t.Context(), pay)
	require.NoError(t, err)
}

// What the function left running does not reach the connection once it has returned.
func TestLocal_leftRunning(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	var kept pgx.Tx
	_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		kept = tx
		return pay(ctx, tx, in)
	})
	require.NoError(t, err)
	_, err = kept.Exec(t.Context(), "delete from paid")
	require.ErrorContains(t, err, "has ended")
	require.Nil(t, kept.Conn())
	require.Equal(t, 1, s.paid(t))
}

// A refusal is final: the next attempt gets it too, with what the customer is told, and a late copy does not run.
func TestLocal_rejected(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]pgjournal.Config{"plain": {}, "sealed": {Codec: aesGCM(t, "a")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openLocalStep(t, cfg)
			declined := &retry.Error{Status: 402, Code: "sold-out", Detail: "no tea", Body: []byte(`{"left":0}`), Err: errors.New("declined")}
			_, first := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
				_, _ = pay(ctx, tx, in)
				return "", saga.Rejected(declined)
			})
			_, again := s.run(t.Context(), neverPay(t))
			for _, err := range []error{first, again} {
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, retry.Rejected, failed.Outcome)
				require.Equal(t, []any{402, "sold-out", "no tea", `{"left":0}`}, []any{failed.Status, string(failed.Code), failed.Detail, string(failed.Body)})
				require.ErrorContains(t, err, "declined")
			}
			require.Zero(t, s.paid(t))
			stored := string(queryRow[[]byte](t, s.look, "select refusal from saga_local"))
			require.Equal(t, name == "plain", strings.Contains(stored, "declined"))
		})
	}
}

// An output is sealed, and is opened for the repeat and the undo.
func TestLocal_sealed(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{Codec: aesGCM(t, "a")})
	_, err := s.run(t.Context(), pay)
	require.NoError(t, err)
	require.NotContains(t, string(queryRow[[]byte](t, s.look, "select output from saga_local")), "paid")
	out, err := s.run(t.Context(), neverPay(t))
	require.NoError(t, err)
	require.Equal(t, "paid tea", out)
	other := localStep{s.j, s.look, start(t, s.j, s.saga.Engine), s.key}
	exec(t, s.look, "update saga_local set saga = $1", [16]byte(other.saga.ID))
	_, err = other.run(t.Context(), neverPay(t))
	require.ErrorContains(t, err, "cannot be opened", "copied to another saga")
	require.ErrorContains(t, other.undo(t.Context(), unpay), "cannot be opened")
}

func TestLocal_tooLarge(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		_, err := pay(ctx, tx, in)
		return strings.Repeat("x", journal.MaxResultBytes), err
	})
	require.ErrorIs(t, err, saga.ErrNoResult)
	require.Equal(t, retry.Rejected, said(err))
	require.Zero(t, s.paid(t))
}

// The function ends its transaction past tx. What it wrote may be committed, so a person has to look.
func TestLocal_endsTransaction(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		_, err := pay(ctx, tx, in)
		require.NoError(t, err)
		_, err = tx.Conn().Exec(ctx, "commit")
		return in, err
	})
	require.ErrorContains(t, err, "ended the transaction itself")
	require.Equal(t, retry.Unknown, said(err))
	_, err = s.run(t.Context(), neverPay(t))
	require.ErrorContains(t, err, "ended the transaction itself")
	require.ErrorContains(t, s.undo(t.Context(), unpay), "ended the transaction itself")
	require.Equal(t, 1, s.paid(t))
}

func TestLocal_arguments(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	require.Nil(t, pgjournal.Local[string, string](nil, pay))
	require.Nil(t, pgjournal.Local[string, string](s.j, nil))
	require.Nil(t, pgjournal.UndoLocal[string, string](nil, unpay))
	require.Nil(t, pgjournal.UndoLocal[string, string](s.j, nil))
	_, err := pgjournal.Local(s.j, pay)(t.Context(), saga.Call[string]{Key: s.key})
	require.ErrorIs(t, err, pgjournal.ErrArgument, "outside of an engine")
	s.saga.ID = journal.ID{1}
	_, err = s.run(t.Context(), neverPay(t))
	require.ErrorContains(t, err, "does not have the saga")
	require.Zero(t, queryRow[int](t, s.look, "select count(*) from saga_local"), "no sweep would find the row")
}

// Rows go with their saga, and no others.
func TestLocal_swept(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	other := newLocalStep(t, s.j, s.look)
	for _, step := range []localStep{s, other} {
		_, err := step.run(t.Context(), pay)
		require.NoError(t, err)
	}
	write(t, s.j, s.saga, journal.Write{Status: journal.Completed, Keep: time.Microsecond})
	until(t, "it is swept", func() bool {
		n, err := s.j.Sweep(t.Context(), 10)
		require.NoError(t, err)
		return n == 1
	})
	require.Equal(t, [16]byte(other.saga.ID), queryRow[[16]byte](t, s.look, "select saga from saga_local"))
	_, err := s.run(t.Context(), neverPay(t))
	require.ErrorContains(t, err, "does not have the saga")
}

// Local steps leave connections to the journal: else slow ones would keep an engine from extending its lease.
func TestLocal_leavesConnections(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	s, other := newLocalStep(t, j, look), newLocalStep(t, j, look)
	runs, goes := make(chan struct{}), make(chan struct{})
	slow := inBackground(func() error {
		_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
			close(runs)
			<-goes
			return pay(ctx, tx, in)
		})
		return err
	})
	<-runs
	waits, cancel := context.WithCancel(t.Context())
	next := inBackground(func() error { _, err := other.run(waits, neverPay(t)); return err })
	require.NoError(t, j.Heartbeat(t.Context(), s.saga.Engine, time.Hour))
	cancel()
	require.Equal(t, retry.NotSent, said(<-next))
	close(goes)
	require.NoError(t, <-slow)
}

// A sweep finds results and the calls of local steps by their saga, also before the server has statistics of them.
func TestPlans_ofASweep(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	withoutStatistics(t, look)
	exec(t, look, "alter table saga_local set (autovacuum_enabled = off)")
	exec(t, look, "alter table saga_result set (autovacuum_enabled = off)")
	fill(t, look, 5000, aPlan, "null")
	exec(t, look, "update saga set status = 3, expires_at = clock_timestamp(), clean = true")
	exec(t, look, "insert into saga_local (saga, key, output) select id, key || n, '' from saga, generate_series(1, 10) n")
	exec(t, look, "insert into saga_result (saga, revision, position, result) select id, 1, n, '' from saga, generate_series(1, 10) n")
	sweep, err := pgkit.LoadQuery(os.DirFS("query"), "sweep.sql", "")
	require.NoError(t, err)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec(t, look, "analyze")
		}
		require.NoError(t, pgx.BeginFunc(t.Context(), look, func(tx pgx.Tx) error {
			nodes, err := pgkittest.GenericPlan(t.Context(), tx, sweep.SQL())
			require.NotRegexp(t, `Seq Scan on saga_(local|result)`, strings.Join(nodes, "\n"))
			return err
		}))
	}
}
