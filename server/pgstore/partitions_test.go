package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// openPartitioned returns a store whose answers go to partitions of interval.
func openPartitioned(tb testing.TB, interval, keep time.Duration) (*pgstore.Store, *pgxpool.Pool) {
	tb.Helper()
	s, look := open(tb, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: interval})
	require.NoError(tb, s.MaintainPartitions(tb.Context(), keep))
	return s, look
}

// inPartitions counts the answers that are in partitions, and those in records.
func inPartitions(tb testing.TB, look *pgxpool.Pool) (apart, inline int) {
	tb.Helper()
	return queryRow[int](tb, look, "select count(*) from idempotency_answer"), queryRow[int](tb, look, "select count(*) from idempotency where envelope is not null")
}

// A method that waited for a run's completion gets the run's answer, although the answer was not in the partition
// when the wait began.
func TestPartitions_answerThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *pgstore.Store, store.Owner) (store.Record, bool, error){
		"an undo": func(ctx context.Context, s *pgstore.Store, o store.Owner) (store.Record, bool, error) {
			return s.Cancel(ctx, store.CancelRequest{ID: o.ID, Token: random(), Keep: time.Hour})
		},
		"an operator": func(ctx context.Context, s *pgstore.Store, o store.Owner) (store.Record, bool, error) {
			return s.Forget(ctx, o.ID, o.Fence, someone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := openPartitioned(t, pgstore.DefaultPartitionInterval, 2*time.Hour)
			req := newClaim()
			req.Lease = time.Microsecond // nobody forgets a live run
			o := claimAs(t, s, req)
			tx, err := look.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `with done as (
				update idempotency set state = 2, status = 201, replay_until = now() + interval '1 hour', answer_kept_until = now() + interval '1 hour'
				where key = $1 returning key, answer_kept_until)
				insert into idempotency_answer (kept_until, key, envelope) select answer_kept_until, key, 'all of it' from done`, o.ID[:])
			require.NoError(t, err)
			type reply struct {
				record store.Record
				ok     bool
				err    error
			}
			asked := make(chan reply, 1)
			go func() {
				var r reply
				r.record, r.ok, r.err = ask(t.Context(), s, o)
				asked <- r
			}()
			until(t, "it waits", func() bool { return waits(t, look, "Lock") })
			require.NoError(t, tx.Commit(t.Context()))
			got := <-asked
			require.NoError(t, got.err)
			require.True(t, got.ok)
			require.Equal(t, store.StateCompleted, got.record.State)
			require.Equal(t, store.Answer{Status: 201, Envelope: []byte("all of it")}, got.record.Answer)
			if name == "an operator" {
				apart, _ := inPartitions(t, look)
				require.Zero(t, apart, "a forgotten answer is gone at once")
			}
		})
	}
}

// Partitions change where answers are written, read and deleted.
func TestStore_partitionedAnswers(t *testing.T) {
	t.Parallel()
	databases, concerned := newStock(t, nil), pgkittest.NewRules(t, "answer", "operator", "record", "settle", "sweep")
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		concerned.SkipOthers(tb)
		s := databases.open(tb, partitioned, serializable)
		require.NoError(tb, s.MaintainPartitions(tb.Context(), 2*time.Hour))
		return withoutTx{s}
	})
}

func TestTxStore_partitionedAnswers(t *testing.T) {
	t.Parallel()
	databases, concerned := newEffectsStock(t, nil), pgkittest.NewRules(t, "tx")
	servertest.TestTxStore(t, func(tb testing.TB) (store.TxStore, servertest.Effects) {
		concerned.SkipOthers(tb)
		look, _ := databases.lend(tb)
		s := openOn(tb, look, partitioned, serializable)
		require.NoError(tb, s.MaintainPartitions(tb.Context(), 2*time.Hour))
		return s, rows{look}
	})
}

var partitioned = pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: pgstore.DefaultPartitionInterval}

func TestPartitions_holdTheAnswers(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, time.Hour, 24*time.Hour)
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	tx, _ := begin(t, s)
	require.NoError(t, tx.Settle(t.Context(), claim(t, s), completion))
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{2, 0}, []int{apart, inline})
	require.NoError(t, s.Settle(t.Context(), claim(t, s), store.Settlement{State: store.StateReleased}))
	require.NoError(t, s.Settle(t.Context(), claim(t, s), store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200}, ReplayFor: time.Hour}))
	apart, _ = inPartitions(t, look)
	require.Equal(t, 2, apart, "what has no answer has none there either")

	r, won, err := s.Claim(t.Context(), claimOf(o.ID))
	require.NoError(t, err)
	require.False(t, won)
	require.Equal(t, completion.Answer, r.Answer)
	_, forgotten, err := s.Forget(t.Context(), o.ID, o.Fence, someone)
	require.NoError(t, err)
	require.True(t, forgotten)
	apart, _ = inPartitions(t, look)
	require.Equal(t, 1, apart, "a forgotten answer is gone at once")
	require.Regexp(t, `^idempotency_answer_p\d{8}_\d{6}$`, queryRow[string](t, look, "select min(inhrelid::regclass::text) from pg_inherits"+answers))
}

// answers is a predicate on pg_inherits. It selects the partitions themselves, not their indexes.
const answers = " where inhparent = 'idempotency_answer'::regclass"

// If the partitions were not maintained, or do not reach far enough, the answer
// is still kept.
func TestPartitions_missing(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, completion))
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	far := completion
	far.KeepAnswer = 365 * 24 * time.Hour
	require.NoError(t, s.Settle(t.Context(), claim(t, s), far))
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{0, 2}, []int{apart, inline})
	require.Equal(t, completion.Answer, read(t, s, o.ID).Answer)
}

// A partition that was there at the last look is gone, or the server's clock is ahead. The answer is still kept, in
// its record, and no caller waits.
func TestPartitions_taken(t *testing.T) {
	t.Parallel()
	for _, separate := range []bool{false, true} {
		s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned, SeparateCommits: separate})
		taken := func() { // the store knows of partitions that are gone
			require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
			for _, name := range partitionNames(t, look) {
				exec(t, look, "drop table "+name)
			}
		}
		inlineBefore := 0
		settled := func(name string, settle func(o store.Owner) error) {
			taken()
			o := claim(t, s)
			require.NoError(t, settle(o), name)
			require.Equal(t, completion.Answer, read(t, s, o.ID).Answer, name)
			inlineBefore++
			apart, inline := inPartitions(t, look)
			require.Equal(t, []int{0, inlineBefore}, []int{apart, inline}, name)
		}
		settled("store", func(o store.Owner) error { return s.Settle(t.Context(), o, completion) })
		settled("unused transaction", func(o store.Owner) error {
			tx, _ := unbegun(t, s)
			return tx.Settle(t.Context(), o, completion)
		})
		exec(t, look, "create table effect (what text)")
		settled("transaction", func(o store.Owner) error {
			tx, ctx := unbegun(t, s)
			_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect values ('kept')")
			require.NoError(t, err)
			return tx.Settle(t.Context(), o, completion)
		})
		require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"), "the handler's work")

		taken()
		const n = 50 // many in a flush
		owners := make([]store.Owner, n)
		for i := range owners {
			owners[i] = claim(t, s)
		}
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i, o := range owners {
			wg.Go(func() { errs[i] = s.Settle(t.Context(), o, completion) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		apart, inline := inPartitions(t, look)
		require.Equal(t, []int{0, inlineBefore + n}, []int{apart, inline})

		require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
		require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
		apart, _ = inPartitions(t, look)
		require.Equal(t, 1, apart, "once there are partitions again")
	}
}

// A transaction whose owner lost the lease rolls back, also if there is no partition for its answer.
func TestPartitions_takenFromWhoLostTheLease(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 24*time.Hour, time.Hour)
	exec(t, look, "create table effect (what text)")
	for _, gone := range []bool{false, true} {
		tx, ctx := unbegun(t, s)
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into effect values ('lost')")
		require.NoError(t, err)
		o := claim(t, s)
		o.Token = random()
		if gone {
			for _, name := range partitionNames(t, look) {
				exec(t, look, "drop table "+name)
			}
		}
		require.ErrorIs(t, tx.Settle(t.Context(), o, completion), store.ErrLeaseLost)
		require.Zero(t, queryRow[int](t, look, "select count(*) from effect"))
	}
}

// Old answers are found after a change to partitions, and after the change back.
func TestPartitions_switch(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	var all []store.Owner
	for _, where := range []pgstore.Answers{pgstore.AnswersInline, pgstore.AnswersPartitioned, pgstore.AnswersLeaving} {
		s := openOn(t, look, pgstore.Config{Answers: where})
		require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
		all = append(all, claim(t, s))
		require.NoError(t, s.Settle(t.Context(), all[len(all)-1], completion))
		for i, o := range all {
			require.Equal(t, completion.Answer, read(t, s, o.ID).Answer, "answer %d by store %d", i, where)
		}
	}
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{1, 2}, []int{apart, inline})
}

// A partition is dropped when all its answers are past their time. The keys
// stay, and each is there once, whatever partition its answer was in.
func TestPartitions_dropped(t *testing.T) {
	t.Parallel()
	s, look := openPartitioned(t, 2*time.Second, time.Second)
	end := completion
	end.KeepAnswer = time.Second
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, end))
	apart, _ := inPartitions(t, look)
	require.Equal(t, 1, apart)
	require.ErrorIs(t, s.MaintainPartitions(t.Context(), 24*time.Hour), pgstore.ErrArgument, "far too many")
	s = openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: 2 * time.Second})
	exec(t, look, "create table idempotency_answer_p19990101 (like idempotency_answer)")
	noted(t, look, "idempotency_answer_p19990101") // a process detached it, and died
	require.Eventually(t, func() bool {
		require.NoError(t, s.MaintainPartitions(t.Context(), time.Second))
		apart, _ := inPartitions(t, look)
		return apart == 0
	}, time.Minute, 100*time.Millisecond)
	r, won, err := s.Claim(t.Context(), claimOf(o.ID))
	require.NoError(t, err)
	require.False(t, won, "the key is still used")
	require.Equal(t, store.StateCompleted, r.State)
	require.Nil(t, r.Answer.Envelope)
	require.Equal(t, end.Answer.Status, r.Answer.Status)
	require.Zero(t, queryRow[int](t, look, "select count(*) from pg_class where relkind = 'r' and relname ~ '^idempotency_answer_p' and not relispartition"))
}

// A look at the partitions sees the catalog as it was when the look began, but the bounds as they are now.
func TestPartitions_droppedUnderTheLook(t *testing.T) {
	t.Parallel()
	_, look := openPartitioned(t, time.Hour, time.Hour)
	q, err := pgkit.LoadQuery(os.DirFS("query"), "partitions.sql", "")
	require.NoError(t, err)
	tx, err := look.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "select 1")
	require.NoError(t, err)

	names := queryRow[[]string](t, look, "select array_agg(relname::text order by relname) from pg_class where relispartition and relkind = 'r'")
	require.Greater(t, len(names), 1)
	exec(t, look, "drop table "+names[0])
	rows, err := tx.Query(t.Context(), q.SQL())
	require.NoError(t, err)
	var seen []string
	for rows.Next() {
		values, err := rows.Values()
		require.NoError(t, err)
		require.NotNil(t, values[3], "bounds of %v", values[2])
		seen = append(seen, values[2].(string))
	}
	require.NoError(t, rows.Err())
	require.Equal(t, names[1:], seen)
}

// Several processes settle, replay, sweep and maintain at the same time, over
// partitions that come and go. There is no error, and no answer is lost before
// its time. The test runs until a partition that held answers was dropped.
func TestPartitions_underLoad(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	const keep = 2 * time.Second
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 3 {
		s := openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned, PartitionInterval: 2 * time.Second})
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := s.MaintainPartitions(t.Context(), keep); err != nil && !isLockTimeout(err) {
					t.Errorf("maintenance: %v", err)
				}
				if _, err := s.Sweep(t.Context(), 100); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
		for range 4 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := settleAndRead(t, s, n, keep); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	used := make(map[string]bool)
	until(t, "a partition that held answers was dropped", func() bool {
		for _, name := range usedPartitions(t, look) {
			used[name] = true
		}
		there := queryRow[[]string](t, look, "select coalesce(array_agg(relname::text), '{}') from pg_class where relname ~ '^idempotency_answer_p' and relkind = 'r'")
		for name := range used {
			if !slices.Contains(there, name) {
				return true
			}
		}
		return t.Failed()
	})
}

// usedPartitions are those that have answers now.
func usedPartitions(tb testing.TB, look *pgxpool.Pool) []string {
	tb.Helper()
	var names []string
	err := look.QueryRow(tb.Context(), `select coalesce(array_agg(distinct relname::text), '{}')
		from idempotency_answer a join pg_class c on c.oid = a.tableoid`).Scan(&names)
	if !isLockTimeout(err) { // it can be the victim of a deadlock with maintenance
		require.NoError(tb, err)
	}
	return names
}

func settleAndRead(t *testing.T, s *pgstore.Store, n int, keep time.Duration) error {
	req := newClaim()
	req.Keep = keep
	r, won, err := s.Claim(t.Context(), req)
	if err != nil || !won {
		return fmt.Errorf("claim: %v, %w", won, err)
	}
	end := store.Settlement{
		State: store.StateCompleted, ReplayFor: keep, KeepAnswer: keep,
		Answer: store.Answer{Status: 200, Envelope: fmt.Appendf(nil, "answer %d", n)},
	}
	o := store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}
	began := time.Now()
	if err := s.Settle(t.Context(), o, end); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	got, err := s.Read(t.Context(), req.ID)
	if errors.Is(err, store.ErrNotFound) && time.Since(began) >= keep {
		return nil // the machine is slow, and the sweep was faster
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if got.Now.Before(got.AnswerUntil) && string(got.Answer.Envelope) != string(end.Answer.Envelope) {
		return fmt.Errorf("answer = %q, want %q", got.Answer.Envelope, end.Answer.Envelope)
	}
	return nil
}

// Answers in records are dropped a window at a time, and the records stay.
func TestSweep_dropsAnswersInWindows(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	end := completion
	for n := range 60 {
		end.KeepAnswer = time.Microsecond
		if n%3 == 0 {
			end.KeepAnswer = 0
		}
		require.NoError(t, s.Settle(t.Context(), claim(t, s), end))
	}
	require.Eventually(t, func() bool {
		n, err := s.Sweep(t.Context(), 2)
		require.NoError(t, err)
		require.Zero(t, n)
		_, inline := inPartitions(t, look)
		return inline == 20
	}, time.Minute, time.Millisecond)
	require.Equal(t, 60, queryRow[int](t, look, "select count(*) from idempotency"))
}
