package pgjournal_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// open returns a journal on a migrated database of tb's own, and an independent
// pool to look at that database with.
func open(tb testing.TB, cfg pgjournal.Config, changes ...func(*pgxpool.Config)) (*pgjournal.Journal, *pgxpool.Pool) {
	tb.Helper()
	look := pgtest.NewPool(tb, pgjournal.Migrate)
	tb.Cleanup(func() { requireSound(tb, look) })
	return openOn(tb, look, cfg, changes...), look
}

// requireSound finds what no statement may leave: the table does not refuse it.
func requireSound(tb testing.TB, look *pgxpool.Pool) {
	tb.Helper()
	requireSoundIn(tb, look, "public")
}

func requireSoundIn(tb testing.TB, look *pgxpool.Pool, schema string) {
	tb.Helper()
	unsound := `select count(*) from ` + schema + `.saga where status not between 1 and 6
		or (status in (3, 4, 6)) <> (expires_at is not null)
		or status in (1, 2) and engine = '00000000-0000-0000-0000-000000000000' and wake_at is null
		or (status not in (1, 2) or engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff') and wake_at is not null
		or clean and engine <> '00000000-0000-0000-0000-000000000000'`
	ctx := context.WithoutCancel(tb.Context())
	var elsewhere bool
	require.NoError(tb, look.QueryRow(ctx, "select to_regclass($1) is null", schema+".saga").Scan(&elsewhere))
	if elsewhere { // the test has moved it, or dropped it
		return
	}
	var n int
	require.NoError(tb, look.QueryRow(ctx, unsound).Scan(&n))
	require.Zero(tb, n, "sagas whose columns do not fit each other")
}

func openOn(tb testing.TB, look *pgxpool.Pool, cfg pgjournal.Config, changes ...func(*pgxpool.Config)) *pgjournal.Journal {
	tb.Helper()
	poolCfg := look.Config()
	for _, change := range changes {
		change(poolCfg)
	}
	cfg.AllowNonDurable = true
	j, err := pgjournal.Open(tb.Context(), poolCfg, cfg)
	require.NoError(tb, err)
	tb.Cleanup(j.Close)
	return j
}

// openAt is open on a cluster of the test's own.
func openAt(tb testing.TB, cluster *pgtest.Cluster, cfg pgjournal.Config) (*pgjournal.Journal, *pgxpool.Pool) {
	tb.Helper()
	url, err := cluster.CreateDatabase(tb.Context(), "sagas")
	require.NoError(tb, err)
	look, err := pgxpool.New(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(look.Close)
	require.NoError(tb, pgjournal.Migrate(tb.Context(), look, ""))
	return openOn(tb, look, cfg), look
}

var (
	someone = journal.Audit{Verb: journal.VerbRetry, Actor: "ann", Reason: "a test"}
	aPlan   = journal.PlanHash(sha256.Sum256([]byte("checkout")))
)

func newEngine() (id journal.EngineID) {
	_, _ = rand.Read(id[:])
	return id
}

// beat gives a new engine a lease.
func beat(tb testing.TB, j journal.Journal, lease time.Duration) journal.EngineID {
	tb.Helper()
	engine := newEngine()
	require.NoError(tb, j.Heartbeat(tb.Context(), engine, lease))
	return engine
}

func newRequest(engine journal.EngineID) journal.StartRequest {
	key := childkey.MustNew()
	input := []byte(`{"sku":"a-1","cents":100}`)
	return journal.StartRequest{
		ID: journal.IDOf("", "checkout", key), Key: key, Name: "checkout", Version: 1, Plan: aPlan,
		InputHash: sha256.Sum256(input), Input: input, Engine: engine,
	}
}

func start(tb testing.TB, j journal.Journal, engine journal.EngineID) journal.Record {
	tb.Helper()
	r, created, err := j.Start(tb.Context(), newRequest(engine))
	require.NoError(tb, err)
	require.True(tb, created)
	return r
}

func ownerOf(r journal.Record) journal.Owner {
	return journal.Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence}
}

func completed(step string) journal.Entry {
	return journal.Entry{Step: step, Outcome: retry.Completed, Attempts: 1, At: time.Now(), Result: []byte(`{}`)}
}

// write appends w as the next revision of r, and returns the saga then.
func write(tb testing.TB, j journal.Journal, r journal.Record, w journal.Write) journal.Record {
	tb.Helper()
	w.Revision = r.Revision - r.Wakes + 1
	require.NoError(tb, j.Append(tb.Context(), ownerOf(r), w))
	r, err := j.Read(tb.Context(), r.ID)
	require.NoError(tb, err)
	return r
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

// closeEngine ends an engine, however its test ended.
func closeEngine(tb testing.TB, e *saga.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // tb's ctx is done
	defer cancel()
	if err := e.Close(ctx); err != nil {
		tb.Logf("closing an engine: %v", err)
	}
}

// unfinished are the statuses of the sagas that are not over.
var unfinished = []journal.Status{journal.Running, journal.Compensating, journal.Stuck}
