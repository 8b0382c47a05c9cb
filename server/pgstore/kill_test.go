package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// These variables are the environment of a process that does one task and dies
// by SIGKILL at a round trip to the database: "effect n when".
const (
	killURL = "PGSTORE_TEST_KILL_URL"
	killAt  = "PGSTORE_TEST_KILL_AT"

	beforeSent    = "before it is sent"
	afterAnswered = "after it was answered"
)

// A deadlyConn kills the process at the n-th round trip.
type deadlyConn struct {
	net.Conn
	left *int
	when string
}

func (c *deadlyConn) Write(b []byte) (int, error) {
	if *c.left > 0 {
		*c.left--
		if *c.left == 0 && c.when == beforeSent {
			die()
		}
	}
	return c.Conn.Write(b)
}

func (c *deadlyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if *c.left == 0 && c.when == afterAnswered && n > 0 {
		die()
	}
	return n, err
}

// transferOnce is the task: it writes one row as its effect class does.
func transferOnce(ctx context.Context, store *pgstore.Store, outside *pgxpool.Pool, effect server.Effect) error {
	g, err := server.NewGuard(store, server.Unscoped, server.Config{MaxRecoveryAttempts: 100})
	if err != nil {
		return err
	}
	key, err := childkey.Parse("k")
	if err != nil {
		return err
	}
	const insert = "insert into effect values ('once')"
	task := server.Task{Name: "transfer", Scope: "tenant", Effect: effect, Wait: -1}
	_, _, err = server.Do(ctx, g, task, key, 0, func(ctx context.Context, _ int) (int, error) {
		switch effect {
		case server.Transactional:
			_, err := pgstore.Tx(ctx).Exec(ctx, insert)
			return 0, err
		case server.Keyed:
			return 0, pgstore.OnComplete(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insert)
				return err
			})
		default:
			_, err := outside.Exec(ctx, insert)
			return 0, err
		}
	})
	return err
}

// transferAndDie is the process.
func transferAndDie(url string) int {
	var effect server.Effect
	var left int
	at, when, _ := strings.Cut(os.Getenv(killAt), ",")
	if _, err := fmt.Sscan(at, &effect, &left); err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	outside, err := pgxpool.NewWithConfig(ctx, cfg.Copy())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	armed := -1 // until the store is open
	cfg.MaxConns = 1
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip a statement
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &deadlyConn{Conn: conn, left: &armed, when: when}, err
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	armed = left
	err = transferOnce(ctx, store, outside, effect)
	fmt.Println("lives", err)
	return 0
}

// A process dies at each point between two messages to the database: before and
// after the claim, the handler's BEGIN, its write, and the COMMIT with the
// answer. In every case the next calls bring the key to the end that its effect
// class defines.
func TestKill_atEachRoundTrip(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, when := range []string{beforeSent, afterAnswered} {
			t.Run(effect.String()+", "+when, func(t *testing.T) {
				t.Parallel()
				points := 0
				for dieAt(t, effect, points+1, when) {
					points++
				}
				t.Logf("killed at %d points", points)
				require.GreaterOrEqual(t, points, map[server.Effect]int{server.Transactional: 4, server.Keyed: 4, server.Opaque: 2}[effect])
			})
		}
	}
}

// dieAt reports whether there was such a point.
func dieAt(t *testing.T, effect server.Effect, n int, when string) bool {
	t.Helper()
	look, killed := killedAt(t, effect, n, when)
	if !killed {
		return false
	}
	lapse(t, look)

	store := openOn(t, look, pgstore.Config{})
	var last error
	require.Eventually(t, func() bool {
		last = transferOnce(t.Context(), store, look, effect)
		return last == nil || errors.Is(last, &server.RefusedError{Code: wire.OutcomeUnknown})
	}, time.Minute, 20*time.Millisecond, "round trip %d: %v", n, last)
	effects := queryRow[int](t, look, "select count(*) from effect")
	if effect == server.Opaque && last != nil {
		require.LessOrEqual(t, effects, 1)
		return true
	}
	require.NoError(t, last, "round trip %d", n)
	require.Equal(t, 1, effects, "round trip %d", n)
	return true
}

// Nobody repeats the call of a process that died between its effect and its answer. A sweeper says that its key needs a
// person.
func TestKill_nobodyAsksAgain(t *testing.T) {
	t.Parallel()
	look, killed := killedAt(t, server.Opaque, 2, beforeSent)
	require.True(t, killed)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))
	s := openOn(t, look, pgstore.Config{})
	g, err := server.NewGuard(s, server.Unscoped, server.Config{})
	require.NoError(t, err)
	needs := func() int64 {
		_, err := g.Sweep(t.Context())
		require.NoError(t, err)
		a, err := s.Reader().Attention(t.Context())
		require.NoError(t, err)
		return a.Unknown
	}
	require.Zero(t, needs(), "its lease goes on")
	lapse(t, look)
	require.Zero(t, needs(), "its owner may be late")
	exec(t, look, "update idempotency set lease_until = lease_until - $1::interval", server.DefaultLease)
	require.EqualValues(t, 1, needs())
}

// killedAt returns the tables of a process that died at a point, and false if there was no such point.
func killedAt(t *testing.T, effect server.Effect, n int, when string) (*pgxpool.Pool, bool) {
	t.Helper()
	look := pgtest.NewPool(t, pgstore.Migrate)
	exec(t, look, "create table effect (what text)")
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killURL+"="+look.Config().ConnString(), fmt.Sprintf("%s=%d %d,%s", killAt, effect, n, when))
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.Equal(t, "lives <nil>\n", string(out))
		return look, false
	}
	require.ErrorContains(t, err, "killed", "%s", out)
	return look, true
}
