package pgtest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// cleanupTimeout bounds the work of a test's cleanup on the server.
const cleanupTimeout = 30 * time.Second

// shared is the cluster of this test binary. It lives as long as the process. The reaper removes it. On the server of
// DATABASE_URL each test's cleanup removes its own database.
var shared = sync.OnceValues(func() (*Cluster, error) {
	return Start(context.Background(), Config{})
})

// databases numbers the databases of the shared cluster.
var databases atomic.Int64

func nextName(kind string) string {
	return kind + "_" + strconv.FormatInt(databases.Add(1), 10)
}

// URL returns the connection URL of a fresh, empty database of tb's own on the cluster that all tests of this binary
// share. The database is dropped when tb ends. URL fails tb at once if Postgres is not available.
func URL(tb testing.TB) string {
	tb.Helper()
	return freshDatabase(tb, sharedCluster(tb), "template0")
}

// NewPool returns a pool on a database of tb's own. The database was empty, and migrate was run on it. A nil migrate
// leaves it empty. NewPool calls migrate with the schema "", which means the first schema of the search_path. So
// migrate can be the Migrate of pgstore or pgjournal. The pool is closed, and the database dropped, when tb ends; a
// connection that is not back in the pool by then fails tb. NewPool fails tb at once if Postgres is not available or
// migrate returns an error.
//
// A private cluster runs each migrate once and gives every test a copy of the result, which takes a few hundredths of
// a second. Two function literals count as different. So do two uses of the same literal if it captures variables.
func NewPool(tb testing.TB, migrate func(ctx context.Context, pool *pgxpool.Pool, schema string) error) *pgxpool.Pool {
	tb.Helper()
	cluster := sharedCluster(tb)
	template := "template0"
	// Templates stay after the test. Only a server that we stop removes them.
	if migrate != nil && cluster.Private() {
		name, err := templateFor(tb.Context(), cluster, migrate)
		if err != nil {
			tb.Fatal(err)
		}
		template = name
	}
	pool, err := pgxpool.New(tb.Context(), freshDatabase(tb, cluster, template))
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() { closePool(tb, pool) })
	if migrate != nil && !cluster.Private() {
		if err := migrate(tb.Context(), pool, ""); err != nil {
			tb.Fatalf("pgtest: migrate: %v", err)
		}
	}
	return pool
}

func sharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	cluster, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return cluster
}

// freshDatabase creates a copy of template that is dropped when tb ends.
func freshDatabase(tb testing.TB, cluster *Cluster, template string) string {
	tb.Helper()
	name := nextName("t")
	if err := cluster.createFrom(tb.Context(), name, template); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout) // tb's own ctx has ended
		defer cancel()
		if err := cluster.DropDatabase(ctx, name); err != nil {
			tb.Error(err)
		}
	})
	return cluster.URL(name)
}

// closePool closes pool, which waits for its connections to come back. A test that lost one
// must fail with its name instead of hanging the binary.
func closePool(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(cleanupTimeout):
		tb.Errorf("pgtest: %d connections were never released to the pool", pool.Stat().AcquiredConns())
	}
}
