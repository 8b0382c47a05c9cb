package pgstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// open returns a store on a migrated database of tb's own, and an independent
// pool to look at that database with.
func open(tb testing.TB, cfg pgstore.Config, changes ...func(*pgxpool.Config)) (*pgstore.Store, *pgxpool.Pool) {
	tb.Helper()
	look := pgtest.NewPool(tb, pgstore.Migrate)
	tb.Cleanup(func() { requireSound(tb, look) })
	return openOn(tb, look, cfg, changes...), look
}

// requireSound finds rows that no statement may leave: the table's constraints allow them.
func requireSound(tb testing.TB, look *pgxpool.Pool) {
	tb.Helper()
	const unsound = `select count(*) from idempotency where state not between 1 and 6 or effect not between 0 and 3
		or (state = 2 and (status is null or replay_until is null))`
	ctx := context.WithoutCancel(tb.Context())
	var elsewhere bool
	require.NoError(tb, look.QueryRow(ctx, "select to_regclass('idempotency') is null").Scan(&elsewhere))
	if elsewhere { // the test has moved it, or dropped it
		return
	}
	var n int
	require.NoError(tb, look.QueryRow(ctx, unsound).Scan(&n))
	require.Zero(tb, n, "records with a state that does not fit the rest")
}

func openOn(tb testing.TB, look *pgxpool.Pool, cfg pgstore.Config, changes ...func(*pgxpool.Config)) *pgstore.Store {
	tb.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	cfg.AllowNonDurable = true
	s, err := pgstore.Open(tb.Context(), poolCfg, cfg)
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	return s
}

// openAt is open on a cluster of the test's own.
func openAt(tb testing.TB, cluster *pgtest.Cluster) (*pgstore.Store, *pgxpool.Pool) {
	tb.Helper()
	url, err := cluster.CreateDatabase(tb.Context(), "keys")
	require.NoError(tb, err)
	look, err := pgxpool.New(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(look.Close)
	require.NoError(tb, pgstore.Migrate(tb.Context(), look, ""))
	return openOn(tb, look, pgstore.Config{}), look
}

func random() (b [16]byte) {
	_, _ = rand.Read(b[:])
	return b
}

func claimOf(id store.ID) store.ClaimRequest {
	return store.ClaimRequest{
		ID:          id,
		Token:       random(),
		Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1, 2, 3}},
		Effect:      store.Keyed,
		Lease:       time.Minute,
		Keep:        time.Hour,
	}
}

func newClaim() store.ClaimRequest { return claimOf(random()) }

// claim makes a first owner.
func claim(tb testing.TB, s store.Store) store.Owner {
	tb.Helper()
	return claimAs(tb, s, newClaim())
}

func claimAs(tb testing.TB, s store.Store, req store.ClaimRequest) store.Owner {
	tb.Helper()
	r, won, err := s.Claim(tb.Context(), req)
	require.NoError(tb, err)
	require.True(tb, won)
	return store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}
}

func read(tb testing.TB, s store.Store, id store.ID) store.Record {
	tb.Helper()
	r, err := s.Read(tb.Context(), id)
	require.NoError(tb, err)
	return r
}

var completion = store.Settlement{
	State:     store.StateCompleted,
	Answer:    store.Answer{Status: 201, Envelope: []byte("answer")},
	ReplayFor: time.Hour,
}

// begin returns a transaction that has been begun, and holds its connection.
func begin(tb testing.TB, s store.TxStore) (store.Tx, context.Context) {
	tb.Helper()
	tx, ctx := unbegun(tb, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "select 1")
	require.NoError(tb, err)
	return tx, ctx
}

// unbegun returns a transaction that waits for its first statement.
func unbegun(tb testing.TB, s store.TxStore) (store.Tx, context.Context) {
	tb.Helper()
	tx, err := s.Begin(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx, tx.NewContext(tb.Context())
}

func exec(tb testing.TB, pool *pgxpool.Pool, text string, args ...any) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), text, args...)
	require.NoError(tb, err)
}

func queryRow[T any](tb testing.TB, pool *pgxpool.Pool, text string, args ...any) (v T) {
	tb.Helper()
	require.NoError(tb, pool.QueryRow(tb.Context(), text, args...).Scan(&v))
	return v
}

// until waits for a condition that something else brings about.
var until = pgkittest.Until

// untilReported waits until the sessions of stores that are closed have ended: each
// reports what it did then.
func untilReported(tb testing.TB, look *pgxpool.Pool) {
	tb.Helper()
	until(tb, "the sessions have ended", func() bool {
		const sessions = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
		return queryRow[int](tb, look, sessions) == int(look.Stat().TotalConns())
	})
}

// lapse ends the leases of runs whose process is dead, so that nobody has to wait for
// that. The leases can be so long that on a slow machine no living run loses its own.
func lapse(tb testing.TB, look *pgxpool.Pool) {
	tb.Helper()
	exec(tb, look, "update idempotency set lease_until = statement_timestamp() where state = 1")
}

// waits reports whether some session of look's database waits, for a reason
// of this type or name.
func waits(tb testing.TB, look *pgxpool.Pool, reason string) bool {
	tb.Helper()
	return queryRow[bool](tb, look, `select exists (select from pg_stat_activity
		where datname = current_database() and $1 in (wait_event_type, wait_event))`, reason)
}

func isLockTimeout(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01") // the victim of a deadlock did not get its lock either
}

// A logOutput receives the lines of a guard's logger. A timer may write lines later: those that the logger held back
// because they share a cause.
type logOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *logOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *logOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
