// Consumer is a service that takes payments in one process and books them in another. A broker is between them: NATS
// JetStream, Kafka or RabbitMQ. Each payment is booked once, although the broker delivers messages again, or twice at
// the same time, and although each of the processes may be killed at any time.
//
//	consumer migrate -database URL
//	consumer shop    -database URL -broker URL [-listen ADDRESS] [-poll-only]
//	consumer ledger  -database URL -broker URL
//
// The shop takes payments over HTTP. Its handler writes each payment, and a job of River, in the transaction that stores
// its answer. The job publishes a message. The ledger gets the messages, and writes each into a row once (package
// inbox). There may be any number of both. SIGINT and SIGTERM stop a process: it finishes what it has begun.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags of the commands.
type options struct {
	database, broker, topic, listen string
	lease, ackWait                  time.Duration
	pollOnly, nonDurable            bool

	log    *slog.Logger
	out    io.Writer
	traces trace.TracerProvider // nil: OpenTelemetry's own
}

const usage = "usage: consumer migrate|shop|ledger [flags]; consumer shop -h lists them"

// run runs a command until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	do, ok := map[string]func(context.Context, *options) error{"migrate": migrate, "shop": shop, "ledger": ledger}[command]
	if !ok {
		fmt.Fprintln(stderr, usage)
		return 2
	}
	o := &options{log: slog.New(slog.NewTextHandler(stderr, nil)), out: stdout}
	flags := flag.NewFlagSet("consumer "+command, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.database, "database", os.Getenv("DATABASE_URL"), "`URL` of the Postgres database")
	flags.StringVar(&o.broker, "broker", "nats://localhost:4222", "`URL` of the broker: nats://, kafka:// (host:port,host:port) or amqp://")
	flags.StringVar(&o.topic, "topic", "payments", "the topic, stream or exchange of the payments; that of dead letters has .dead behind it")
	flags.StringVar(&o.listen, "listen", "localhost:8080", "`address` on which the shop listens")
	flags.DurationVar(&o.lease, "lease", 30*time.Second, "how long the keys of a killed process stay with it")
	flags.DurationVar(&o.ackWait, "ack-wait", 30*time.Second, "when NATS and Kafka give the messages of a killed ledger to another one")
	flags.BoolVar(&o.pollOnly, "poll-only", os.Getenv("POLL_ONLY") != "", "look for jobs every 100 ms, and send no NOTIFY; default: whether $POLL_ONLY is set")
	flags.BoolVar(&o.nonDurable, "non-durable", false, "accept a database that loses commits in a crash, for tests")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 || o.database == "" {
		fmt.Fprintln(stderr, usage+". -database is required")
		return 2
	}
	if err := do(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		o.log.Error("consumer "+command, "error", err)
		return 1
	}
	return 0
}

// withGuard calls work with a guard over the database's store, and closes both.
func (o *options) withGuard(ctx context.Context, namespace string, work func(cfg *pgxpool.Config, guard *server.Guard) error) (err error) {
	cfg, err := pgxpool.ParseConfig(o.database)
	if err != nil {
		return fmt.Errorf("-database: %w", err)
	}
	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: o.nonDurable})
	if err != nil {
		return err
	}
	defer store.Close()
	telemetry, err := o.newTelemetry(cmp.Or(namespace, group))
	if err != nil {
		return err
	}
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{
		Namespace: namespace, Lease: o.lease, Logger: o.log, Observer: telemetry,
	})
	if err != nil {
		return err
	}
	sweeping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		guard.RunSweeper(sweeping) // deletes records past their retention
	}()
	defer func() {
		stop()
		<-done
		err = errors.Join(err, guard.Shutdown(context.WithoutCancel(ctx))) // waits for the running ones
	}()
	return work(cfg, guard)
}
