package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func size(conns int32) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) { cfg.MaxConns = conns }
}

// Two stores, like those of two processes, are asked for the same keys at once.
// Each has many callers, in no common order. One caller wins each key, and no
// caller gets an error, in particular no deadlock.
func TestCombining_contestedKeys(t *testing.T) {
	t.Parallel()
	// Each caller wants one key of 8. All callers move from one window to the
	// next, so that they meet.
	const stores, callers, keys, share, window = 2, 128, 2000, 8, 50
	first, look := open(t, pgstore.Config{}, size(8))
	all := [stores]*pgstore.Store{first, openOn(t, look, pgstore.Config{}, size(8))}
	ids := make([]store.ID, keys)
	for i := range ids {
		ids[i] = random()
	}
	wins := make([]atomic.Int32, keys)
	var wg sync.WaitGroup
	for i := range stores * callers {
		wg.Go(func() {
			for _, k := range inWindows(keys, window) {
				if k%share != i/stores%share {
					continue
				}
				won, err := claimAndSettle(t.Context(), all[i%stores], ids[k])
				if err != nil {
					t.Error(err)
					return
				}
				if won {
					wins[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range wins {
		if got := wins[k].Load(); got != 1 {
			t.Errorf("key %d was won %d times, want 1", k, got)
		}
	}
	require.Equal(t, keys, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and fence = 1 and envelope = 'answer'"))
	require.Less(t, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency"), keys, "nothing was combined")
	first.Close()
	all[1].Close()
	untilReported(t, look)
	require.Zero(t, queryRow[int](t, look, "select deadlocks from pg_stat_database where datname = current_database()"))
}

// inWindows returns the numbers up to n, in random order within each window.
func inWindows(n, window int) (all []int) {
	for start := 0; start < n; start += window {
		for _, i := range rand.Perm(window) {
			all = append(all, start+i)
		}
	}
	return all
}

func claimAndSettle(ctx context.Context, s store.Store, id store.ID) (won bool, err error) {
	req := claimOf(id)
	r, won, err := s.Claim(ctx, req)
	if err != nil || !won {
		return false, err
	}
	return true, s.Settle(ctx, store.Owner{ID: id, Token: req.Token, Fence: r.Fence}, completion)
}

// flushing sends all n writes in one flush: it holds conns connections of the
// store until the writes wait. wait returns their results.
func flushing(t *testing.T, s *pgstore.Store, conns, n int, do func(i int) error) (wait func() []error) {
	t.Helper()
	held := make([]store.Tx, conns)
	for i := range held {
		held[i], _ = begin(t, s)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	until(t, "all wait", func() bool { return s.Queued() == n-1 })
	for _, tx := range held {
		require.NoError(t, tx.Rollback(t.Context()))
	}
	return func() []error {
		wg.Wait()
		return errs
	}
}

func flushed(t *testing.T, s *pgstore.Store, n int, do func(i int) error) []error {
	t.Helper()
	return flushing(t, s, 1, n, do)()
}

// Each write in a flush of many has the same result as alone.
func TestCombining_everyKindOfWrite(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, size(1))
	taken := claim(t, s)
	opaque := newClaim()
	opaque.Effect, opaque.Route, opaque.Memo = store.Opaque, "POST /wire", []byte("memo")
	sent := newClaim()
	sent.FirstSent, sent.Window = time.Now().Add(-time.Minute), time.Hour
	old := newClaim()
	old.FirstSent, old.Window = time.Now().Add(-time.Hour), time.Minute
	twice := newClaim()
	claims := []store.ClaimRequest{newClaim(), opaque, sent, old, claimOf(taken.ID), twice, twice}
	owners := []store.Owner{claim(t, s), claim(t, s), claim(t, s), claim(t, s), claim(t, s)}
	ends := []store.Settlement{
		completion,
		{State: store.StateReleased, MaybeRan: true},
		{State: store.StateInProgress}, // it counts as dead. An unknown key has a commit of its own
		{State: store.StateCompleted, Answer: store.Answer{Status: 204}, ReplayFor: time.Hour, KeepAnswer: time.Minute},
		completion,
	}
	owners[4].Token = random() // it lost its lease

	records := make([]store.Record, len(claims))
	won := make([]bool, len(claims))
	errs := flushed(t, s, len(claims)+len(owners), func(i int) (err error) {
		if i < len(claims) {
			records[i], won[i], err = s.Claim(t.Context(), claims[i])
			return err
		}
		return s.Settle(t.Context(), owners[i-len(claims)], ends[i-len(claims)])
	})
	want := []error{nil, nil, nil, store.ErrExpired, nil, nil, nil, nil, nil, nil, nil, store.ErrLeaseLost}
	for i, err := range errs {
		require.ErrorIs(t, err, want[i], "write %d", i)
	}
	require.Equal(t, []bool{true, true, true, false, false, true, true}, won, "a claim that is repeated knows itself")
	for i, r := range records {
		if i == 3 {
			continue
		}
		stored := read(t, s, claims[i].ID)
		r.Now, stored.Now = time.Time{}, time.Time{}
		require.Equal(t, stored, r, "what claim %d returned", i)
	}
	for i, end := range ends {
		r := read(t, s, owners[i].ID)
		if i == 4 {
			require.Equal(t, store.StateInProgress, r.State)
			continue
		}
		require.Equal(t, end.State, r.State)
		require.Equal(t, end.Answer, r.Answer)
		require.Equal(t, end.MaybeRan, r.MaybeRan)
		require.Equal(t, end.State == store.StateInProgress, r.LeaseLeft() <= 0)
		require.Equal(t, end.State == store.StateCompleted, !r.ReplayUntil.IsZero())
		require.Equal(t, end.KeepAnswer > 0, !r.AnswerUntil.IsZero())
		if end.KeepAnswer > 0 {
			require.WithinDuration(t, r.ReplayUntil.Add(end.KeepAnswer-end.ReplayFor), r.AnswerUntil, time.Second)
		}
	}
	commits := queryRow[int](t, look, "select count(distinct xmin::text) from idempotency where key = any ($1)",
		[][16]byte{claims[0].ID, claims[1].ID, claims[2].ID, twice.ID, owners[0].ID, owners[1].ID, owners[2].ID, owners[3].ID})
	require.Equal(t, 1, commits)
}

// Claims of one guard are alike, and so are its completions: only their keys, tokens, fingerprints,
// callers, times of sending and answers differ. Each has the same result as alone.
func TestCombining_alike(t *testing.T) {
	t.Parallel()
	traced := new(batchedQueries)
	s, look := open(t, pgstore.Config{}, size(1), func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = traced })
	taken := claim(t, s)
	claims := make([]store.ClaimRequest, 6)
	for i := range claims {
		claims[i] = newClaim()
		claims[i].Window, claims[i].Lease = time.Hour, time.Minute+1234567*time.Nanosecond
	}
	claims[1].FirstSent = time.Now().Add(-time.Minute)
	claims[2].FirstSent = time.Now().Add(-2 * time.Hour) // too old
	claims[3].ID = taken.ID
	claims[4].Parent = random()
	claims[5] = claims[0] // sent again
	owners := []store.Owner{claim(t, s), claim(t, s), claim(t, s)}
	owners[2].Token = random() // it lost its lease
	end := completion
	end.KeepAnswer, end.MaybeRan = time.Minute, true

	records := make([]store.Record, len(claims))
	won := make([]bool, len(claims))
	errs := flushed(t, s, len(claims)+len(owners), func(i int) (err error) {
		if i < len(claims) {
			records[i], won[i], err = s.Claim(t.Context(), claims[i])
			return err
		}
		return s.Settle(t.Context(), owners[i-len(claims)], end)
	})
	want := []error{nil, nil, store.ErrExpired, nil, nil, nil, nil, nil, store.ErrLeaseLost}
	for i, err := range errs {
		require.ErrorIs(t, err, want[i], "write %d", i)
	}
	require.Equal(t, []bool{true, true, false, false, true, true}, won)
	for i, r := range records {
		if i == 2 {
			continue
		}
		stored := read(t, s, claims[i].ID)
		r.Now, stored.Now = time.Time{}, time.Time{}
		require.Equal(t, stored, r, "what claim %d returned", i)
	}
	for _, o := range owners[:2] {
		r := read(t, s, o.ID)
		require.Equal(t, store.StateCompleted, r.State)
		require.Equal(t, end.Answer, r.Answer)
		require.True(t, r.MaybeRan)
		require.WithinDuration(t, r.ReplayUntil.Add(end.KeepAnswer-end.ReplayFor), r.AnswerUntil, 0)
	}
	require.Equal(t, store.StateInProgress, read(t, s, owners[2].ID).State)
	require.Equal(t, 1, traced.count("::smallint, c.fingerprint, c.parent"), "claims that are alike share an effect")
	require.Equal(t, 1, traced.count("set state = 2, status = o.status"), "completions that are alike share a state")
	require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency where key = any ($1)",
		[][16]byte{claims[0].ID, claims[1].ID, claims[4].ID, owners[0].ID, owners[1].ID}))
}

// batchedQueries are the queries that were sent in batches.
type batchedQueries struct {
	acquires

	mu  sync.Mutex
	all []string
}

func (q *batchedQueries) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (q *batchedQueries) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, data.SQL)
}

func (q *batchedQueries) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// count returns how many of the queries have the text.
func (q *batchedQueries) count(text string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, sql := range q.all {
		if strings.Contains(sql, text) {
			n++
		}
	}
	return n
}

// Two flushes of different processes that need the same records must not lock
// them in opposite orders. Each flush goes by key, in whatever order its writes
// came, and inserts its claims before its settlements.
func TestCombining_order(t *testing.T) {
	t.Parallel()
	const each = 6 // fewer would be in order by chance; a page has room for all
	for name, answers := range map[string]pgstore.Answers{"inline": pgstore.AnswersInline, "partitioned": pgstore.AnswersPartitioned} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, look := open(t, pgstore.Config{Answers: answers}, size(1))
			require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
			claims, owners := make([]store.ClaimRequest, each), make([]store.Owner, each)
			for i, ids := 0, descending(2*each); i < each; i++ { // in the table they lie in no order that helps
				claims[i], owners[i] = claimOf(ids[2*i]), claimAs(t, s, claimOf(ids[2*i+1]))
			}
			for _, err := range flushed(t, s, 2*each, func(i int) error {
				if i%2 == 0 {
					return s.Settle(t.Context(), owners[i/2], completion)
				}
				_, _, err := s.Claim(t.Context(), claims[i/2])
				return err
			}) {
				require.NoError(t, err)
			}
			const written = "select array_agg(key order by ctid) = array_agg(key order by key) from idempotency where state = $1"
			require.True(t, queryRow[bool](t, look, written, store.StateInProgress), "claims are not in order")
			require.True(t, queryRow[bool](t, look, written, store.StateCompleted), "settlements are not in order")
			require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency"), "not one flush")
			require.True(t, queryRow[bool](t, look, `select max(cmin::text::int) filter (where state = 1) < min(cmin::text::int) filter (where state = 2)
				from idempotency`), "settlements do not follow claims")
			if answers == pgstore.AnswersPartitioned {
				apart, _ := inPartitions(t, look)
				require.Equal(t, each, apart)
			}
		})
	}
}

// descending returns so many keys, the last in order first.
func descending(n int) []store.ID {
	ids := make([]store.ID, n)
	for i := range ids {
		ids[i] = random()
	}
	slices.SortFunc(ids, func(a, b store.ID) int { return bytes.Compare(b[:], a[:]) })
	return ids
}

// A cancel holds its lock until the undo's transaction ends. So it waits for a connection like other writes, but is
// part of no flush.
func TestCombining_notCancels(t *testing.T) {
	t.Parallel()
	asked := new(acquires)
	s, look := open(t, pgstore.Config{}, size(1), func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = asked })
	released := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), released, store.Settlement{State: store.StateReleased}))
	tx, _ := begin(t, s)
	before := asked.Load()

	claims := func() error { _, _, err := s.Claim(t.Context(), newClaim()); return err }
	cancel := func(id store.ID) func() error {
		return func() error {
			_, _, err := s.Cancel(t.Context(), store.CancelRequest{ID: id, Token: random(), Keep: time.Hour})
			return err
		}
	}
	var done []<-chan error
	for _, do := range []func() error{claims, cancel(random()), claims, cancel(released.ID), claims, cancel(random()), claims} {
		done = append(done, inBackground(do))
	}
	until(t, "all wait", func() bool { return int(asked.Load()-before)+s.Queued() == len(done) })
	require.Equal(t, 3, s.Queued(), "the claims behind the first")
	require.NoError(t, tx.Rollback(t.Context()))
	for _, d := range done {
		require.NoError(t, <-d)
	}
	commits := func(where string) int {
		return queryRow[int](t, look, "select count(distinct xmin::text) from idempotency where "+where)
	}
	require.Equal(t, 1, commits("state = 1"), "the claims share a commit")
	require.Equal(t, 3, commits("state = 6"), "each cancel has one of its own")
	require.Equal(t, 4, commits("true"))
}

// acquires counts the requests for a connection.
type acquires struct{ atomic.Int64 }

func (a *acquires) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	a.Add(1)
	return ctx
}

func (a *acquires) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

func (a *acquires) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (a *acquires) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The answers of a flush go to the same places as when each is written alone.
func TestCombining_partitionedAnswers(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{Answers: pgstore.AnswersPartitioned}, size(1))
	require.NoError(t, s.MaintainPartitions(t.Context(), 2*time.Hour))
	owners := make([]store.Owner, 6)
	ends := make([]store.Settlement, len(owners))
	for i := range owners {
		owners[i], ends[i] = claim(t, s), completion
	}
	ends[4].KeepAnswer, ends[4].ReplayFor = 1000*time.Hour, 1000*time.Hour // no partition reaches so far
	ends[5] = store.Settlement{State: store.StateReleased}
	errs := flushed(t, s, len(owners), func(i int) error { return s.Settle(t.Context(), owners[i], ends[i]) })
	for i, o := range owners {
		require.NoError(t, errs[i])
		r := read(t, s, o.ID)
		require.Equal(t, ends[i].State, r.State)
		require.Equal(t, ends[i].Answer, r.Answer)
	}
	apart, inline := inPartitions(t, look)
	require.Equal(t, []int{4, 1}, []int{apart, inline})
	require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency"))
}

// By the planner's own estimate a flush should read a small table as a whole,
// and in any order.
func TestCombining_looksRecordsUp(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	const rows = `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select gen_random_uuid(), gen_random_uuid(), 1, 1, 2, 1, now(), now(), now() from generate_series(1, $1)`
	for _, n := range []int{0, 10, 1_000, 20_000} {
		exec(t, look, rows, n)
		for _, file := range []string{"settle_many", "settle_many_partitioned", "settle_many_alike"} {
			lines := genericPlan(t, look, file)
			if file != "settle_many_alike" {
				lines = append(lines, plan(t, look, file)...)
			}
			for _, line := range lines {
				require.NotContains(t, line, "Seq Scan on idempotency", "%s with %d records", file, n)
				if strings.Contains(line, "Scan using idempotency_pkey") {
					require.Contains(t, line, "Index Cond: (key = o.key)", "%s with %d records", file, n)
				}
			}
		}
		for _, file := range []string{"claim_many", "claim_many_alike"} {
			claims := strings.Join(genericPlan(t, look, file), "\n")
			require.Regexp(t, `Nested Loop Anti Join(.|\n)*Index Only Scan using idempotency_pkey.*Index Cond: \(key = c\.key\)`, claims, "%s with %d records", file, n)
		}
	}
}

// genericPlan is the server's plan for any arguments, a line for each node.
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
	_, err = tx.Exec(t.Context(), query("flush"), "50", false)
	require.NoError(t, err)
	nodes, err := pgkittest.GenericPlan(t.Context(), tx, query(file))
	require.NoError(t, err)
	return nodes
}

// plan is the server's plan for 64 settlements, a line for each node.
func plan(t *testing.T, look *pgxpool.Pool, file string) (nodes []string) {
	t.Helper()
	query := func(file string, args pgx.NamedArgs) pgkit.Statement {
		q, err := pgkit.LoadQuery(os.DirFS("query"), file+".sql", "")
		require.NoError(t, err)
		require.NoError(t, q.Bind(args).Err())
		return q.Bind(args)
	}
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	st := query("flush", pgx.NamedArgs{"lock_timeout": "50", "asynchronous": false})
	_, err = tx.Exec(t.Context(), st.SQL, st.Args...)
	require.NoError(t, err)
	const n = 64
	st = query(file, pgx.NamedArgs{
		"keys": make([][16]byte, n), "tokens": make([][16]byte, n), "fences": make([]int64, n), "states": make([]int16, n),
		"statuses": make([]int32, n), "envelopes": make([][]byte, n), "replay_fors": make([]time.Duration, n),
		"keep_answers": make([]time.Duration, n), "maybe_rans": make([]bool, n), "lease_lefts": make([]*time.Duration, n), "numbers": pgkit.Numbers(n),
	})
	lines, err := tx.Query(t.Context(), "explain "+st.SQL, st.Args...)
	require.NoError(t, err)
	text, err := pgx.CollectRows(lines, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Split(strings.Join(text, " "), "->")
}

// The claims of Transactional runs share a commit like all other claims: that commit is before the runs' own.
func TestCombining_claimsOfTransactionalRuns(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{}, size(1))
	const runs = 6
	for _, err := range flushed(t, s, runs, func(int) error {
		req := newClaim()
		req.Effect = store.Transactional
		_, won, err := s.Claim(t.Context(), req)
		if err == nil && !won {
			err = errors.New("not won")
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, runs, queryRow[int](t, look, "select count(*) from idempotency where effect = $1", int16(store.Transactional)))
	require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from idempotency"))
}
