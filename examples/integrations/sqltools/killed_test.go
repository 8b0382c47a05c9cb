package sqltools_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/sqltools"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// The environment of a service that a test starts as a process, to kill it.
const (
	databaseEnv = "SQLTOOLS_TEST_DATABASE"
	libraryEnv  = "SQLTOOLS_TEST_LIBRARY"
)

// shortLease lets the key of a killed process go soon.
const shortLease = time.Second

func TestMain(m *testing.M) {
	if url := os.Getenv(databaseEnv); url != "" {
		err := process(context.Background(), url, os.Getenv(libraryEnv))
		fmt.Fprintln(os.Stderr, err) // it is killed before it ends
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// process is a service that books and then does not answer. It sends a booking to itself.
func process(ctx context.Context, url, name string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Lease: shortLease})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	err = server.Handle(mux, guard, sqltools.Book, server.Transactional, func(ctx context.Context, in sqltools.Booking) (sqltools.Receipt, error) {
		out, err := libraries[name].book(ctx, in)
		fmt.Println("booked", out.Entry, err)
		<-ctx.Done()
		return out, ctx.Err()
	})
	if err != nil {
		return err
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/bookings", strings.NewReader(`{"Account":"ann","Cents":5}`))
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return fmt.Errorf("answered %d", w.Code)
}

// A process is killed after its last statement, and before COMMIT. The rows are gone. The next call runs, and books once.
func TestKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, pool *pgxpool.Pool, l library) {
		_, name, _ := strings.Cut(t.Name(), "/")
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
		cmd.Env = append(os.Environ(), databaseEnv+"="+pool.Config().ConnString(), libraryEnv+"="+name)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.NoError(t, err)
		require.Equal(t, "booked 1 <nil>\n", line)

		url := serve(t, pool, pgstore.Config{}, l.book) // waits for the dead one's lock of the row, if it is still there
		require.Eventually(t, func() bool {
			got := send(t, url, "k", sqltools.Booking{Account: "ann", Cents: 5})
			return got.status == http.StatusOK && got.replayed == "false"
		}, time.Minute, 10*time.Millisecond)
		requireLedger(t, pool, "ann", 105, 5)
	})
}
