package consumer

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fanonce/fanonce/server/outbox"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var (
	messages = flag.Int("consumer.messages", 600, "payments of each test")
	kills    = flag.Int("consumer.kills", 4, "consumers that each test kills")
)

// lease is short, so that what a killed consumer held is free soon.
const lease = 500 * time.Millisecond

// Payments go through outbox, broker and inbox. One message in ten is published twice, consumers are killed, and two
// messages are no payments. Each payment is booked once, none is lost, and the two are dead letters. The full figures:
//
//	go test -run TestConsumers -consumer.messages 10000 -consumer.kills 20
func TestConsumers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (address string, publish func(context.Context, []outbox.Message) []error){
		"nats": startNATS, "kafka": startKafka,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newLedger(t)
			address, publish := start(t)
			write(t, pool)
			relay(t, pool, twice(publish))
			var consumers [2]*exec.Cmd
			for i := range consumers {
				consumers[i] = startConsumer(t, pool, name+" "+address)
			}
			for k := range *kills {
				until(t, pool, "some more are booked", func(n int) bool { return n >= min((k+1)**messages/(*kills+2), *messages-1) })
				victim := consumers[k%len(consumers)]
				require.NoError(t, victim.Process.Kill())
				_ = victim.Wait()
				consumers[k%len(consumers)] = startConsumer(t, pool, name+" "+address)
			}
			until(t, pool, "all are booked", func(n int) bool { return n >= *messages })
			require.Eventually(t, func() bool { return count(t, pool, "select count(*) from dead_letter") == 2 }, time.Minute, 10*time.Millisecond)
			for _, c := range consumers { // what they still have in hand may not book twice
				require.NoError(t, c.Process.Signal(os.Interrupt))
				require.NoError(t, c.Wait())
			}
			require.Equal(t, *messages, count(t, pool, "select count(distinct cents) from entry"), "lost")
			require.Equal(t, *messages, count(t, pool, "select count(*) from entry"), "booked twice")
			require.Equal(t, 2, count(t, pool, "select count(*) from dead_letter"))
		})
	}
}

func newLedger(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.NewPool(t, migrate)
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	for _, step := range []func(context.Context, *pgxpool.Pool, string) error{pgstore.Migrate, outbox.Migrate} {
		if err := step(ctx, pool, schema); err != nil {
			return err
		}
	}
	if _, err := pool.Exec(ctx, "create table dead_letter (payload text, cause text)"); err != nil {
		return err
	}
	return CreateTables(ctx, pool)
}

// write commits the payments, of 1 cent, 2 cents and so on, and two messages that are none.
func write(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	box, err := outbox.New(outbox.Config{})
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range *messages + 2 {
			payload, err := json.Marshal(Payment{Account: fmt.Sprint("a", i%20), Cents: int64(i + 1)})
			if i >= *messages {
				payload = []byte("no payment")
			}
			if err == nil {
				_, err = box.WriteTx(t.Context(), tx, outbox.Message{Topic: topic, Aggregate: fmt.Sprint("a", i%20), Payload: payload})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// relay publishes until the test ends.
func relay(t *testing.T, pool *pgxpool.Pool, publish func(context.Context, []outbox.Message) []error) {
	t.Helper()
	box, err := outbox.New(outbox.Config{})
	require.NoError(t, err)
	r, err := box.NewRelay(pool, outbox.RelayConfig{Publish: publish, PollInterval: 10 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// twice loses the acknowledgements of one message in ten: the relay publishes it again.
func twice(publish func(context.Context, []outbox.Message) []error) func(context.Context, []outbox.Message) []error {
	return func(ctx context.Context, batch []outbox.Message) []error {
		failures := publish(ctx, batch)
		for i := range failures {
			if failures[i] == nil && batch[i].Attempts == 0 && rand.IntN(10) == 0 {
				failures[i] = context.DeadlineExceeded
			}
		}
		return failures
	}
}

// startNATS starts a JetStream server in this process. Its stream drops no copies, so that the consumers have to.
func startNATS(t *testing.T) (string, func(context.Context, []outbox.Message) []error) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(time.Minute))
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, Duplicates: 100 * time.Millisecond})
	require.NoError(t, err)
	_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "ledger", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second})
	require.NoError(t, err)
	return s.ClientURL(), PublishNATS(js)
}

// startKafka starts a Kafka in this process.
func startKafka(t *testing.T) (string, func(context.Context, []outbox.Message) []error) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topic))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	address := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return address, PublishKafka(client)
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// until waits until enough payments are booked.
func until(t *testing.T, pool *pgxpool.Pool, what string, enough func(n int) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return enough(count(t, pool, "select count(*) from entry")) }, 3*time.Minute, 10*time.Millisecond, what)
}

// startConsumer starts a process with a consumer, and waits until it is ready.
func startConsumer(t *testing.T, pool *pgxpool.Pool, broker string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), databaseEnv+"="+pool.Config().ConnString(), brokerEnv+"="+broker)
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
