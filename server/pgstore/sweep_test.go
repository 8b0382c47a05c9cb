package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// addExpired puts n expired records into the table.
func addExpired(tb testing.TB, look *pgxpool.Pool, n int) {
	tb.Helper()
	exec(tb, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
			created_at, lease_until, expires_at, replay_until, status, envelope)
		select gen_random_uuid(), gen_random_uuid(), 1, 2, 2, 1, sha256('request'),
			past, past, now() - interval '1 day' + n * interval '1 ms', now() - interval '7 days', 200, convert_to(repeat('answer', 33), 'utf8')
		from generate_series(1, $1) n, (select now() - interval '8 days') t (past)`, n)
}

// A sweep does not read again the rows that earlier sweeps deleted. A vacuum
// cannot remove such rows while a transaction may still see them.
func TestSweep_goesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	const all, batch = 4000, 100
	addExpired(t, look, all)
	exec(t, look, "analyze idempotency")
	holding(t, look, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, "select count(*) from idempotency")
	for range all / batch {
		n, err := s.Sweep(t.Context(), batch)
		require.NoError(t, err)
		require.Equal(t, batch, n)
	}
	s.Close()
	untilReported(t, look)
	read := queryRow[int](t, look, "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'idempotency_expires_at'")
	require.GreaterOrEqual(t, read, all)
	require.Less(t, read, 3*all)
}

// The call that comes to the end of the table also sweeps the records that were skipped.
func TestSweep_comesBack(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	addExpired(t, look, 10)
	end := holding(t, look, pgx.TxOptions{}, "select from idempotency order by expires_at limit 2 for update")
	for _, want := range []int{5, 3} {
		n, err := s.Sweep(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	addExpired(t, look, 10)
	n, err := s.Sweep(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	end()
	for _, want := range []int{5, 2, 0} {
		n, err := s.Sweep(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
}

// order sends a request with a fresh key to h.
func order(tb testing.TB, h http.Handler) {
	tb.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("order"))
	r.Header.Set(wire.HeaderKey, fmt.Sprintf("%x", random()))
	h.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		tb.Errorf("status = %d, want %d: %s", w.Code, http.StatusCreated, w.Body)
	}
}

// ordering is a guarded route over s, with an answer of 200 bytes.
func ordering(tb testing.TB, s store.Store, cfg server.Config) (*server.Guard, http.Handler) {
	tb.Helper()
	g, err := server.NewGuard(s, server.Unscoped, cfg)
	require.NoError(tb, err)
	body := []byte(strings.Repeat("answer", 33))
	h, err := g.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	require.NoError(tb, err)
	return g, h
}

// A sweep's deletions need not be durable. Its commit waits neither for the disk nor for a standby, and does not
// delay commits that do.
func TestSweep_commitWaitsForNobody(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	addExpired(t, look, 10)
	n, err := s.Sweep(ctx, 5)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	exec(t, look, "update idempotency set expires_at = expires_at + interval '2 days', answer_until = now()")
	_, err = s.Sweep(ctx, 5)
	require.NoError(t, err)
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency where envelope is not null"), "as answers")

	claims := inBackground(func() error { _, _, err := s.Claim(ctx, newClaim()); return err })
	backendWaiting(t, look)
	giveUpStandby(t, look)
	require.NoError(t, <-claims, "as a claim did")
}

// Records expire while requests come, and two processes sweep. Exactly the
// records past their time are deleted, and no request fails.
func TestSweeper_underLoad(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	addExpired(t, look, 20_000)
	cfg := server.Config{
		Lease: 5 * time.Second, Retention: 5 * time.Second, AuditRetention: 6 * time.Second, Skew: time.Second,
		StoreTimeout: time.Minute, SweepInterval: time.Second, Observer: failures{t},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var requests atomic.Int64
	for range 2 {
		g, h := ordering(t, openOn(t, look, pgstore.Config{}), cfg)
		wg.Go(func() { g.RunSweeper(ctx) })
		for range 4 {
			wg.Go(func() { // one after the other: a slow machine gets no more than it can do
				for ; ctx.Err() == nil; time.Sleep(80 * time.Millisecond) {
					order(t, h)
					requests.Add(1)
				}
			})
		}
	}
	g, h := ordering(t, s, server.Config{})
	const kept = 10
	for range kept {
		order(t, h)
	}
	require.NoError(t, g.Shutdown(t.Context()))
	until(t, "what had expired is gone", func() bool {
		return queryRow[int](t, look, "select count(*) from idempotency where created_at < now() - interval '1 day'") == 0
	})
	cancel()
	wg.Wait()
	require.Positive(t, requests.Load())

	ctx, cancel = context.WithCancel(t.Context())
	last, _ := ordering(t, s, cfg)
	wg.Go(func() { last.RunSweeper(ctx) })
	until(t, "of the load nothing is left", func() bool {
		return queryRow[int](t, look, "select count(*) from idempotency") == kept
	})
	cancel()
	wg.Wait()
}

// failures fails the test on an event that must not occur. The function order checks the requests' answers.
type failures struct{ t *testing.T }

func (f failures) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventSweepError {
		f.t.Errorf("%v: %v", e.Kind, e.Err)
	}
}

// BodyRetention is a promise about private data: a sweep does not leave answers for a later one while it drops some.
func TestSweep_dropsAnswersWhileThereAreSome(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	const records, limit = 3000, 100
	exec(t, look, `insert into idempotency (fence, created_at, lease_until, expires_at, effect, fingerprint_version, key, token, fingerprint, state, status, replay_until, answer_until, envelope)
		select 1, now() - interval '2 h', now() - interval '2 h', now() + interval '7 days' + n * interval '1 ms', 1, 1, gen_random_uuid(), gen_random_uuid(), sha256('x'), 2, 200,
			now() - interval '1 h', now() - interval '1 h', 'secret'
		from generate_series(1, $1) n`, records)
	left := func() int {
		return queryRow[int](t, look, "select count(*) from idempotency where envelope is not null")
	}
	_, err := s.Sweep(t.Context(), limit)
	require.NoError(t, err)
	require.LessOrEqual(t, left(), records-2*limit, "answers after one sweep")
	g, err := server.NewGuard(s, server.Unscoped, server.Config{BodyRetention: time.Hour, SweepBatch: limit})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	swept := inBackground(func() error { g.RunSweeper(ctx); return nil })
	until(t, "no answer is left", func() bool { return left() == 0 })
	cancel()
	require.NoError(t, <-swept)
}
