package outbox_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/outbox"
)

// A message that the broker does not take holds back its aggregate, and nothing else. Its order holds afterwards.
func TestRelay_failingAggregate(t *testing.T) {
	t.Parallel()
	testRelayFailingAggregate(t, newPool)
}

func testRelayFailingAggregate(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	var mu sync.Mutex
	up, most := false, 0
	b := &broker{refuse: func(m outbox.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if m.Aggregate == "bad" && string(m.Payload) == "1" && !up {
			most = max(most, m.Attempts)
			return errRefused
		}
		return nil
	}}
	for i := range 3 {
		write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "bad", Payload: fmt.Append(nil, i)})
		write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "good", Payload: fmt.Append(nil, i)})
	}
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish})
	until(t, "the others are published", func() bool { return len(b.payloads("good")) == 3 })
	until(t, "it was tried several times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return most >= 2
	})
	require.Equal(t, []string{"0"}, b.payloads("bad"))
	s := stats(t, box, pool)
	require.Equal(t, []int64{2, 1}, []int64{s.Waiting, s.Failing})
	require.Positive(t, s.Oldest)
	require.Equal(t, 1, s.Relays)
	mu.Lock()
	up = true
	mu.Unlock()
	until(t, "all are published", func() bool { return len(b.payloads("bad")) == 3 })
	require.Equal(t, []string{"0", "1", "2"}, b.payloads("bad"))
}

// A message without an aggregate holds back nothing, not even its like.
func TestRelay_failingMessageWithoutAggregate(t *testing.T) {
	t.Parallel()
	pool, box := newPool(t), newBox(t)
	b := &broker{refuse: func(m outbox.Message) error {
		if string(m.Payload) == "0" {
			return errRefused
		}
		return nil
	}}
	for i := range 50 {
		write(t, pool, box, outbox.Message{Topic: "t", Payload: fmt.Append(nil, i)})
	}
	run(t, pool, box, outbox.RelayConfig{Publish: b.publish, BatchSize: 1})
	until(t, "the others are published", func() bool { return len(b.payloads("")) == 49 })
	until(t, "only that one waits", func() bool { return stats(t, box, pool).Waiting == 1 })
}

// Publish that breaks its contract publishes nothing, as far as the relay knows.
func TestRelay_wrongNumberOfErrors(t *testing.T) {
	t.Parallel()
	pool, box := newPool(t), newBox(t)
	write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "a"})
	run(t, pool, box, outbox.RelayConfig{Publish: func(_ context.Context, batch []outbox.Message) []error {
		return make([]error, len(batch)+1)
	}})
	until(t, "the failure is noted", func() bool { return stats(t, box, pool).Failing == 1 })
}

// Relays share the lanes, and what one leaves the others take at once, although its lease goes on.
func TestRelay_share(t *testing.T) {
	t.Parallel()
	testRelayShare(t, newPool)
}

func testRelayShare(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	shares := func() (n []int) {
		rows, err := pool.Query(t.Context(), "select count(*) from outbox_lane where relay is not null group by relay order by 1")
		require.NoError(t, err)
		n, err = pgx.CollectRows(rows, pgx.RowTo[int])
		require.NoError(t, err)
		return n
	}
	cfg := outbox.RelayConfig{Publish: new(broker).publish, PublishTimeout: 20 * time.Millisecond, Lease: 300 * time.Millisecond}
	run(t, pool, box, cfg)
	until(t, "one has all", func() bool { return fmt.Sprint(shares()) == "[32]" })
	stop := run(t, pool, box, cfg)
	until(t, "two have half", func() bool { return fmt.Sprint(shares()) == "[16 16]" })
	run(t, pool, box, cfg)
	until(t, "three have a third", func() bool { n := shares(); return len(n) == 3 && n[0] >= 10 && n[2] <= 11 })
	stop()
	until(t, "two have half again", func() bool { return fmt.Sprint(shares()) == "[16 16]" })
}

// A relay whose database goes away publishes what is left when it is back.
func TestRelay_databaseDown(t *testing.T) {
	t.Parallel()
	pool, box := newPool(t), newBox(t)
	b := new(broker)
	own, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	require.NoError(t, err)
	t.Cleanup(own.Close)
	run(t, own, box, outbox.RelayConfig{Publish: b.publish})
	for i := range 20 {
		_, err := pool.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() and query like '%outbox%'")
		require.NoError(t, err)
		write(t, pool, box, outbox.Message{Topic: "t", Aggregate: "a", Payload: fmt.Append(nil, i)})
	}
	until(t, "all are published", func() bool { return len(b.payloads("a")) == 20 })
	for i, text := range b.payloads("a") {
		require.Equal(t, strconv.Itoa(i), text)
	}
}

var (
	chaosMessages = flag.Int("outbox.messages", 1500, "messages of TestRelay_killed")
	chaosKills    = flag.Int("outbox.kills", 6, "relays that TestRelay_killed kills")
)

const (
	relayURL   = "OUTBOX_TEST_RELAY"
	aggregates = 40
)

// relayProcess is a relay whose broker is a table. It fails now and then, after the broker took the message or before.
func relayProcess(url string) int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return 2
	}
	box, err := outbox.New(outbox.Config{})
	if err != nil {
		return 2
	}
	relay, err := box.NewRelay(pool, outbox.RelayConfig{
		BatchSize: 8, PollInterval: 5 * time.Millisecond, PublishTimeout: 200 * time.Millisecond, Lease: 600 * time.Millisecond,
		MaxBackoff: 200 * time.Millisecond, Publish: func(ctx context.Context, batch []outbox.Message) []error {
			failures := make([]error, len(batch))
			for i, m := range batch {
				if rand.IntN(20) == 0 {
					failures[i] = errRefused
				}
				if failures[i] == nil || rand.IntN(2) == 0 {
					if _, err := pool.Exec(ctx, "insert into broker (key, aggregate, n) values ($1, $2, $3::text::int)", m.Key.String(), m.Aggregate, string(m.Payload)); err != nil {
						failures[i] = err
					}
				}
			}
			return failures
		},
	})
	if err != nil {
		return 2
	}
	fmt.Println("ready")
	relay.Run(ctx)
	return 0
}

// Relays are killed and stopped for longer than their leases, and their broker fails. No message is lost, and the first copies of an
// aggregate's messages are in the order of their commits. The full figures:
//
//	go test ./server/outbox -run TestRelay_killed -outbox.messages 10000 -outbox.kills 20
func TestRelay_killed(t *testing.T) {
	t.Parallel()
	testRelayKilled(t, newPool)
}

func testRelayKilled(t *testing.T, newPool func(*testing.T) *pgxpool.Pool) {
	t.Helper()
	pool, box := newPool(t), newBox(t)
	_, err := pool.Exec(t.Context(), "create table broker (seq bigserial, key text, aggregate text, n int); create table counter (aggregate text primary key, n int)")
	require.NoError(t, err)
	var relays [3]*exec.Cmd
	for i := range relays {
		relays[i] = startRelay(t, pool)
	}
	done := make(chan error, 4)
	for writer := range 4 {
		go func() { done <- writeAll(context.WithoutCancel(t.Context()), pool, box, writer) }()
	}
	for k := range *chaosKills {
		published := 0
		until(t, "some more are published", func() bool {
			require.NoError(t, pool.QueryRow(t.Context(), "select count(distinct key) from broker").Scan(&published))
			return published >= min((k+1)**chaosMessages/(*chaosKills+2), *chaosMessages-1)
		})
		victim := relays[k%len(relays)]
		require.NoError(t, victim.Process.Kill())
		_ = victim.Wait()
		relays[k%len(relays)] = startRelay(t, pool)
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	until(t, "all are published", func() bool { return stats(t, box, pool).Waiting == 0 })
	requireOrder(t, pool)
}

// writeAll commits a writer's part of the messages. The number of a message is taken under the lock of its aggregate's row, so
// that numbers grow with the commits.
func writeAll(ctx context.Context, pool *pgxpool.Pool, box *outbox.Outbox, writer int) error {
	for i := writer; i < *chaosMessages; i += 4 {
		aggregate := "a" + strconv.Itoa(rand.IntN(aggregates))
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var n int
			const next = "insert into counter values ($1, 0) on conflict (aggregate) do update set n = counter.n + 1 returning n"
			if err := tx.QueryRow(ctx, next, aggregate).Scan(&n); err != nil {
				return err
			}
			_, err := box.WriteTx(ctx, tx, outbox.Message{Topic: "t", Aggregate: aggregate, Payload: fmt.Append(nil, n)})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// requireOrder fails if a message was lost, or if the first copies of an aggregate are out of order.
func requireOrder(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select aggregate, n from (select aggregate, n, min(seq) as first from broker group by 1, 2) b order by first")
	require.NoError(t, err)
	next, total := make(map[string]int), 0
	var aggregate string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&aggregate, &n}, func() error {
		require.Equal(t, next[aggregate], n, "aggregate %s", aggregate)
		next[aggregate]++
		total++
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, *chaosMessages, total)
}

// startRelay starts a process with a relay, and waits until it is ready.
func startRelay(t *testing.T, pool *pgxpool.Pool) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), relayURL+"="+pool.Config().ConnString())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}
