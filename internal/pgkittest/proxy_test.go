package pgkittest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func TestProxy_delays(t *testing.T) {
	t.Parallel()
	p := pgkittest.NewProxy(t, pgtest.URL(t))
	conn := connect(t, p.URL())
	const delay = 50 * time.Millisecond
	p.Delay(delay)
	begin := time.Now()
	_, err := conn.Exec(t.Context(), "select 1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), 2*delay, "there and back")
	p.Delay(0)
	_, err = conn.Exec(t.Context(), "select 1")
	require.NoError(t, err)
}

// Held packets arrive in the end. Packets that a client sends while answers are held take effect.
func TestProxy_holds(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := pgkittest.NewProxy(t, url)
	conn, look := connect(t, p.URL()), connect(t, url)
	_, err := look.Exec(t.Context(), "create table t (a int)")
	require.NoError(t, err)
	count := func() (n int) {
		require.NoError(t, look.QueryRow(t.Context(), "select count(*) from t").Scan(&n))
		return n
	}
	insert := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.WithoutCancel(t.Context()), "insert into t values (1)")
			done <- err
		}()
		return done
	}

	p.HoldAnswers()
	done := insert()
	require.Eventually(t, func() bool { return count() == 1 }, 30*time.Second, time.Millisecond, "the row is there")
	require.Empty(t, done, "nobody answered")
	p.Release()
	require.NoError(t, <-done)

	p.HoldRequests()
	done = insert()
	select {
	case err := <-done:
		t.Fatalf("answered through a network that holds requests: %v", err)
	case <-time.After(100 * time.Millisecond): // far more than an insert takes
	}
	require.Equal(t, 1, count())
	p.Release()
	require.NoError(t, <-done)
	require.Equal(t, 2, count())
}

func TestProxy_withoutServer(t *testing.T) {
	t.Parallel()
	p := pgkittest.NewProxy(t, "postgres://u:p@127.0.0.1:1/none?sslmode=disable")
	_, err := pgx.Connect(t.Context(), p.URL())
	require.Error(t, err)
}
