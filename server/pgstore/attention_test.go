package pgstore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

var (
	givenUp    = store.Settlement{State: store.StateUnknown, MaybeRan: true}
	needPerson = []store.State{store.StateUnknown, store.StateQuarantined}
)

// version1 opens a program of version 1 on the tables of look.
func version1(tb testing.TB, look *pgxpool.Pool, changes ...func(*pgxpool.Config)) *pgstore.Store {
	tb.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	s, err := pgstore.OpenVersion1(tb.Context(), poolCfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	return s
}

func unknownKey(tb testing.TB, s store.Store) store.Owner {
	tb.Helper()
	o := claim(tb, s)
	require.NoError(tb, s.Settle(tb.Context(), o, givenUp))
	return o
}

func requireListed(tb testing.TB, s store.Store, want ...store.Owner) {
	tb.Helper()
	got, err := s.Reader().List(tb.Context(), store.ListRequest{States: needPerson, Limit: 100})
	require.NoError(tb, err)
	ids := make([]store.ID, len(got))
	for i := range got {
		ids[i] = got[i].ID
	}
	wanted := make([]store.ID, len(want))
	for i := range want {
		wanted[i] = want[i].ID
	}
	require.ElementsMatch(tb, wanted, ids)
	a, err := s.Reader().Attention(tb.Context())
	require.NoError(tb, err)
	require.EqualValues(tb, len(want), a.Unknown)
}

// A list and a count of the keys that need a person look up their records one by one, for any estimate of the tables'
// sizes.
func TestAttention_scansNoRecords(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	for range 50 {
		unknownKey(t, s)
	}
	args := pgx.NamedArgs{
		"effect": int16(0), "route": "", "states": []int16{2, 4, 5}, "limit": int64(100),
		"after_created_at": pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}, "after_key": [16]byte{},
		"key": [16]byte{1}, "fence": int64(1), "state": int16(4),
	}
	for _, n := range []int{1_000, 20_000} {
		exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
			select gen_random_uuid(), gen_random_uuid(), 1, 3, 2, 1, now(), now(), now() from generate_series(1, $1)`, n)
		for _, analyzed := range []bool{false, true} {
			if analyzed {
				exec(t, look, "analyze idempotency, idempotency_attention")
			}
			for _, file := range []string{"reader_attention", "count_attention", "note_attention", "drop_attention"} {
				text := explainedWith(t, look, file, args)
				require.NotContains(t, text, "Seq Scan on idempotency ", "%s with %d records: %s", file, n, text)
				if file != "drop_attention" {
					require.Regexp(t, `Index Scan using idempotency_pkey on idempotency `, text, "%s with %d records", file, n)
				}
			}
		}
	}
	requireReadsNoTable(t, s, look)
}

// requireReadsNoTable lists and counts, and has the server count what it read.
func requireReadsNoTable(t *testing.T, s *pgstore.Store, look *pgxpool.Pool) {
	t.Helper()
	const scans = "select coalesce(seq_scan, 0) from pg_stat_xact_user_tables where relname = 'idempotency'"
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var before, after int64
	require.NoError(t, tx.QueryRow(t.Context(), scans).Scan(&before))
	q, err := pgkit.LoadQuery(os.DirFS("query"), "count_attention.sql", "")
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), q.SQL())
	require.NoError(t, err)
	counted := 0
	for rows.Next() {
		counted++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 1, counted)
	require.NoError(t, tx.QueryRow(t.Context(), scans).Scan(&after))
	require.Equal(t, before, after)
	a, err := s.Reader().Attention(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 50, a.Unknown)
}

func explainedWith(t *testing.T, look *pgxpool.Pool, file string, args pgx.NamedArgs) string {
	t.Helper()
	q, err := pgkit.LoadQuery(os.DirFS("query"), file+".sql", "")
	require.NoError(t, err)
	own := make(pgx.NamedArgs)
	text, err := os.ReadFile("query/" + file + ".sql")
	require.NoError(t, err)
	for name, value := range args {
		if strings.Contains(string(text), "@"+name+"\n") || strings.Contains(string(text), "@"+name+":") ||
			strings.Contains(string(text), "@"+name+" ") || strings.Contains(string(text), "@"+name+",") {
			own[name] = value
		}
	}
	st := q.Bind(own)
	require.NoError(t, st.Err())
	lines, err := look.Query(t.Context(), "explain "+st.SQL, st.Args...)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(lines, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(plan, " ")
}

// The count of what needs a person looks at the 2,500 oldest notes, and not at those of dead runs, which a sweeper ends.
func TestAttention_countsABoundedPart(t *testing.T) {
	t.Parallel()
	testCountIsBounded(t, pgtest.NewPool(t, pgstore.Migrate))
}

func TestDistributed_countsABoundedPart(t *testing.T) {
	t.Parallel()
	testCountIsBounded(t, distributedPool(t))
}

func testCountIsBounded(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid(), 1, case when n <= 10 then 1 else 4 end, 3, 1,
			now() - interval '1 h' + n * interval '1 s', now() - interval '1 h', now() + interval '1 h'
		from generate_series(1, 2600) n`)
	exec(t, look, `insert into idempotency_attention (key, created_at, noted_at, fence, state)
		select key, created_at, now(), fence, state from idempotency`)
	exec(t, look, "update idempotency set state = 2 where created_at = (select min(created_at) from idempotency where state = 4)")
	got, err := openOn(t, look, pgstore.Config{}).Reader().Attention(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Attention{Unknown: 2499, Oldest: got.Oldest}, got, "2,500 notes, of which one is stale")
	require.InDelta(t, time.Hour, got.Oldest, float64(5*time.Minute))
}

// A list of dead runs looks at the youngest Opaque records, and a sweep notes what is older.
func TestAttention_deadRunsThatAreOld(t *testing.T) {
	t.Parallel()
	testDeadRunsThatAreOld(t, pgtest.NewPool(t, pgstore.Migrate), 10_000)
}

func TestDistributed_deadRunsThatAreOld(t *testing.T) {
	t.Parallel()
	testDeadRunsThatAreOld(t, distributedPool(t), 1000)
}

func testDeadRunsThatAreOld(t *testing.T, look *pgxpool.Pool, young int) {
	t.Helper()
	exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid(), 1, case when n in (1, 2, $1 + 10) then 1 else 2 end, 3, 1,
			now() - interval '10 h' + n * interval '1 s', now() - interval '1 h', now() + interval '1 h'
		from generate_series(1, $1 + 20) n`, young)
	s := openOn(t, look, pgstore.Config{})
	listed := func(req store.ListRequest) (keys []string) {
		t.Helper()
		req.States, req.Limit = []store.State{store.StateInProgress}, 10
		found, err := s.Reader().List(t.Context(), req)
		require.NoError(t, err)
		for _, r := range found {
			keys = append(keys, strings.TrimLeft(r.ID.String(), "0-"))
		}
		return keys
	}
	require.Equal(t, []string{fmt.Sprint(young + 10)}, listed(store.ListRequest{}), "a young one")
	_, err := s.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", fmt.Sprint(young + 10)}, listed(store.ListRequest{}))
	first, err := s.Reader().List(t.Context(), store.ListRequest{States: []store.State{store.StateInProgress}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"2", fmt.Sprint(young + 10)}, listed(store.ListRequest{After: first[0].Cursor()}))
	exec(t, look, "update idempotency set lease_until = now() + interval '1 h' where key = '00000000-0000-0000-0000-000000000002'")
	require.Equal(t, []string{"1", fmt.Sprint(young + 10)}, listed(store.ListRequest{}), "one that lives after all")
}

// The step to version 2 finds the keys that need a person at that time. The sweep finds those of programs of version 1
// that go on beside it, and deletes the notes that such programs left behind.
func TestAttention_besideVersion1(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, nil)
	require.NoError(t, pgstore.Version1.Migrate(t.Context(), look, ""))
	old := version1(t, look)
	before := unknownKey(t, old)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	s := openOn(t, look, pgstore.Config{})
	requireListed(t, s, before)

	beside := unknownKey(t, old)
	requireListed(t, s, before)
	_, err := s.Sweep(t.Context(), 100)
	require.NoError(t, err)
	requireListed(t, s, before, beside)

	resolve(t, old, before)
	requireListed(t, s, beside)
	notes := func() int { return queryRow[int](t, look, "select count(*) from idempotency_attention") }
	_, err = s.Sweep(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 2, notes(), "a young note stays")
	exec(t, look, "update idempotency_attention set noted_at = noted_at - interval '61 seconds'")
	_, err = s.Sweep(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, notes())
	requireListed(t, s, beside)

	again := takenOver(t, s, before)
	require.NoError(t, s.Settle(t.Context(), again, givenUp))
	requireListed(t, s, before, beside)
}

// resolve lets the key run again.
func resolve(t *testing.T, s *pgstore.Store, o store.Owner) {
	t.Helper()
	_, ok, err := s.Resolve(t.Context(), store.ResolveRequest{
		ID: o.ID, From: o.Fence, To: store.StateReleased, Token: newClaim().Token,
		By: store.Audit{Verb: store.VerbResolve, Actor: "ann", Reason: "looked"},
	})
	require.NoError(t, err)
	require.True(t, ok)
}

func takenOver(t *testing.T, s *pgstore.Store, o store.Owner) store.Owner {
	t.Helper()
	req := claimOf(o.ID)
	r, won, err := s.TakeOver(t.Context(), req, o.Fence+1)
	require.NoError(t, err)
	require.True(t, won)
	return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}
}

// The statement of the sweep must not delete a note that replaced an older one while the statement waited for its lock.
// A sweep does not wait for long.
func TestAttention_sweepKeepsWhatChanges(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	q, err := pgkit.LoadQuery(os.DirFS("query"), "sweep_attention.sql", "")
	require.NoError(t, err)
	o := unknownKey(t, s)
	exec(t, look, "update idempotency_attention set noted_at = noted_at - interval '1 hour', fence = 7") // as of a time before
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "update idempotency_attention set noted_at = now(), fence = $1", o.Fence)
	require.NoError(t, err)
	_, err = s.Sweep(t.Context(), 100)
	require.NoError(t, err, "the next sweep deletes what is held now")
	swept := make(chan error, 1)
	go func() {
		st := q.Bind(pgx.NamedArgs{"keys": [][16]byte{o.ID}})
		_, err := look.Exec(t.Context(), st.SQL, st.Args...)
		swept <- err
	}()
	until(t, "the sweep waits for the note", func() bool {
		return queryRow[bool](t, look, `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock' and query like '%idempotency_attention%')`)
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-swept)
	requireListed(t, s, o)
}

// A role without rights on the notes is not ready: a key could not become unknown.
func TestAttention_privileges(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	runtime := roles(t, look).Runtime
	s := openOn(t, look, pgstore.Config{}, as(runtime))
	exec(t, look, "revoke insert on idempotency_attention from "+runtime)
	require.ErrorIs(t, s.Check(t.Context()), pgstore.ErrPrivilege)
}
