package consumer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Of a consumer that a test starts as a process, to kill it.
const (
	databaseEnv = "CONSUMER_TEST_DATABASE"
	brokerEnv   = "CONSUMER_TEST_BROKER" // nats or kafka, and its address
	topic       = "payments"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(databaseEnv); url != "" {
		if err := process(url, os.Getenv(brokerEnv)); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a whole consumer.
func process(database, broker string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Lease: lease})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard.Shutdown(context.WithoutCancel(ctx))) }()
	box, err := NewInbox(guard, func(ctx context.Context, m inbox.Message, cause error) error {
		_, err := pgstore.Tx(ctx).Exec(ctx, "insert into dead_letter values ($1, $2)", string(m.Payload), cause.Error())
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	kind, address, _ := strings.Cut(broker, " ")
	if kind == "kafka" {
		client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.RebalanceTimeout(6*time.Second))
		if err != nil {
			return err
		}
		defer client.Close()
		return Kafka(ctx, client, box)
	}
	conn, err := nats.Connect(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	from, err := js.Consumer(ctx, topic, "ledger")
	if err != nil {
		return err
	}
	return NATS(ctx, from, box)
}
