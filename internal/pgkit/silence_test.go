package pgkit_test

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// behindNetwork is a bench whose pool reaches the server through a network that can fall silent.
func behindNetwork(t *testing.T, conns int32, changes ...func(*pgxpool.Config)) (*bench, *pgkittest.Proxy) {
	t.Helper()
	var network *pgkittest.Proxy
	b := newBench(t, conns, pgkit.CombinerConfig{MaxFlushes: 1}, append(changes, func(cfg *pgxpool.Config) {
		network = pgkittest.NewProxy(t, cfg.ConnString())
		at, err := url.Parse(network.URL())
		require.NoError(t, err)
		through(cfg, at.Host)
	})...)
	return b, network
}

// through makes a pool dial another address.
func through(cfg *pgxpool.Config, host string) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, host) }
}

func insertion(id int) pgkit.Statement {
	return pgkit.Statement{SQL: "insert into t values ($1, 0)", Args: []any{id}}
}

// Without an answer a write that its caller left loses its connection, and so does a flush that its
// callers wait for. Nothing is canceled, and the next write has a new connection.
func TestWriter_breaksWhatHasNoAnswer(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(t *testing.T, b *bench){
		"a write that was left": func(t *testing.T, b *bench) {
			t.Helper()
			ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer leave()
			_, err := pgkit.Exec(ctx, b.writer, insertion(1))
			require.ErrorIs(t, err, pgkit.ErrFateUnknown)
			require.Equal(t, 1, b.writer.Detached())
			until(t, "it is given up", func() bool { return b.writer.Detached() == 0 })
		},
		"a flush that is waited for": func(t *testing.T, b *bench) {
			t.Helper()
			require.ErrorIs(t, (<-b.put(t.Context(), put{1, 0})).err, pgkit.ErrFateUnknown)
			until(t, "nothing is under way", b.combiner.Idle)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dials atomic.Int32
			b, network := behindNetwork(t, 2, func(cfg *pgxpool.Config) {
				dial := cfg.ConnConfig.DialFunc
				cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					return dial(ctx, network, address)
				}
			})
			b.writer.Impatient(200*time.Millisecond, 20*time.Millisecond)
			_, _, err := b.puts.Do(t.Context(), put{100, 0}) // the connection knows the statements after that
			require.NoError(t, err)
			_, err = pgkit.Exec(t.Context(), b.writer, insertion(101))
			require.NoError(t, err)
			require.EqualValues(t, 1, dials.Load())
			network.HoldAnswers()
			write(t, b)
			until(t, "what pgx does for a broken connection is done", func() bool { return b.pool.Stat().TotalConns() == 0 })
			require.EqualValues(t, 1, dials.Load(), "no cancel request")
			until(t, "it took effect all the same", func() bool { n, _ := b.count(t); return n == 3 })
			network.Release()
			_, ok, err := b.puts.Do(t.Context(), put{2, 0})
			require.NoError(t, err)
			require.True(t, ok)
			require.EqualValues(t, 2, dials.Load())
		})
	}
}

// Idle connections to a host that does not answer are not tried one after the other, and the next host of
// the connection string is tried first.
func TestPrepare_silentHost(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	network := pgkittest.NewProxy(t, direct)
	silent, err := url.Parse(network.URL())
	require.NoError(t, err)
	live, err := url.Parse(direct)
	require.NoError(t, err)
	both := *silent
	both.Host = silent.Host + "," + live.Host
	const conns = 6
	pool := newPoolAt(t, both.String(), func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.MinConns = conns, conns })
	require.Equal(t, pgkit.DefaultConnectTimeout, pool.Config().ConnConfig.ConnectTimeout)
	until(t, "all connections are idle", func() bool { return pool.Stat().IdleConns() == conns })
	network.HoldRequests()
	network.HoldAnswers()
	time.Sleep(1100 * time.Millisecond) // so long must a connection be idle to be asked
	start := time.Now()
	for range conns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, live.Host, conn.Conn().PgConn().Conn().RemoteAddr().String())
		defer conn.Release()
	}
	require.Less(t, time.Since(start), pgkit.PingTimeout+pgkit.DefaultConnectTimeout, "one ping, and no connect timeout")
}
