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
)

// addExpired puts so many records into the table that nobody can need any more.
func addExpired(tb testing.TB, look *pgxpool.Pool, n int) {
	tb.Helper()
	exec(tb, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
			created_at, lease_until, expires_at, replay_until, status, envelope)
		select gen_random_uuid(), gen_random_uuid(), 1, 2, 2, 1, sha256('request'),
			past, past, now() - interval '1 day' + n * interval '1 ms', now() - interval '7 days', 200, convert_to(repeat('answer', 33), 'utf8')
		from generate_series(1, $1) n, (select now() - interval '8 days') t (past)`, n)
}

// A sweep does not pass over what those before it deleted, which a vacuum cannot
// clear away while somebody may still see it.
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
	s.Close() // its sessions tell what they read
	read := func() int {
		return queryRow[int](t, look, "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'idempotency_expires_at'")
	}
	until(t, "the reads are counted", func() bool { return read() >= all })
	require.Less(t, read(), 3*all)
}

// What was passed over is swept by the call that comes to the end.
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

// load sends a request with a fresh key to h at times that are due, whatever becomes of
// those before, until ctx ends, and returns what each took from when it was due.
func load(ctx context.Context, tb testing.TB, h http.Handler, perSecond int) (took []time.Duration) {
	tb.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	each := time.Second / time.Duration(perSecond)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(each) {
		time.Sleep(time.Until(due))
		wg.Go(func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("order"))
			key := random()
			r.Header.Set(wire.HeaderKey, fmt.Sprintf("%x", key))
			h.ServeHTTP(w, r)
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			if w.Code != http.StatusCreated {
				tb.Errorf("status = %d, want %d: %s", w.Code, http.StatusCreated, w.Body)
			}
		})
	}
	wg.Wait()
	return took
}

// ordering is a guarded route over s, with an answer of 200 bytes.
func ordering(tb testing.TB, s server.Store, cfg server.Config) (*server.Guard, http.Handler) {
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

// Records expire while requests come, and two processes sweep: all that is past its
// time goes, nothing else does, and no request fails.
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
		wg.Go(func() { requests.Add(int64(len(load(ctx, t, h, 50)))) })
	}
	g, h := ordering(t, s, server.Config{})
	kept := load(onlyFor(t, 100*time.Millisecond), t, h, 100)
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
		return queryRow[int](t, look, "select count(*) from idempotency") == len(kept)
	})
	cancel()
	wg.Wait()
}

func onlyFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// failures are events that must not be. What requests come to, load looks at.
type failures struct{ t *testing.T }

func (f failures) Observe(e server.Event) {
	if e.Kind == server.EventSweepError {
		f.t.Errorf("%v: %v", e.Kind, e.Err)
	}
}
