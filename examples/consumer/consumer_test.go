package main

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/pgtest"
)

var (
	messages = flag.Int("consumer.messages", 600, "payments of each test")
	kills    = flag.Int("consumer.kills", 4, "processes that each test kills, of each kind")
)

// lease is short, so that the messages of a killed process are free soon.
const lease = 600 * time.Millisecond

const processEnv = "CONSUMER_TEST_PROCESS"

// TestMain is the program where a test starts it, to kill it.
func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		go endWithTest()
		main()
	}
	flag.Parse()
	status := m.Run()
	stopRabbitMQ()
	if status == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/fanonce/fanonce/server/pgtest.launch.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// eachBroker runs test against each of the brokers, with a topic and a database of its own.
func eachBroker(t *testing.T, test func(t *testing.T, at *place)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T, *place){"nats": startNATS, "kafka": startKafka, "rabbitmq": startRabbitMQ} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPlace(t)
			start(t, at)
			test(t, at)
		})
	}
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{
		pool: pgtest.NewPool(t, createTables), topic: "payments-" + strings.ToLower(crand.Text()[:8]),
		killed: make(map[int]time.Time), expire: func(*testing.T) {},
	}
}

// Payments go through jobs, broker and inbox. One message in ten is published twice, ledgers are killed and their
// connections cut, and two messages are no payments. Each payment is booked once, none is lost, and the two are where
// the broker has its dead letters. The full figures:
//
//	go test -run TestLedger_killed -consumer.messages 10000 -consumer.kills 20 -timeout 30m
func TestLedger_killed(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, at *place) {
		began := time.Now()
		jobs, copies := startJobs(t, at)
		write(t, at, jobs)
		var ledgers [2]*process
		for i := range ledgers {
			ledgers[i] = at.start(t, "ledger")
		}
		for k := range *kills {
			at.untilBooked(t, min((k+1)**messages/(*kills+2), *messages-1))
			ledgers[k%len(ledgers)].kill(t)
			at.gate.cut()
			ledgers[k%len(ledgers)] = at.start(t, "ledger")
		}
		at.untilBooked(t, *messages)
		requireDead(t, at, "no payment 0", "no payment 1")
		at.untilQuiet(t)
		for _, l := range ledgers { // what they still have in hand may not book twice
			l.stop(t)
		}
		requireOnce(t, at, *messages)
		require.Zero(t, at.waiting(t), "messages that are not acknowledged")
		require.Equal(t, 2, count(t, at.pool, "select count(*) from dead_letter"))
		t.Logf("%d payments, %d copies, %d ledgers killed, in %v", *messages, copies.Load(), *kills, time.Since(began).Round(100*time.Millisecond))
	})
}

// requireOnce fails if one of n payments is lost, or booked twice.
func requireOnce(t *testing.T, at *place, n int) {
	t.Helper()
	const not = "select count(*) from payment left join (select payment, count(*) n from entry group by 1) e on e.payment = id where n is distinct from 1"
	require.Equal(t, n, count(t, at.pool, "select count(*) from payment"))
	require.Zero(t, count(t, at.pool, not), "lost, or booked twice")
	require.Equal(t, n, count(t, at.pool, "select count(*) from entry"))
}

// requireDead waits until these are the broker's dead letters. The broker may have copies of them.
func requireDead(t *testing.T, at *place, want ...string) {
	t.Helper()
	got := make(map[string]bool)
	require.Eventually(t, func() bool {
		for _, payload := range at.dead(t) {
			got[payload] = true
		}
		return len(got) >= len(want)
	}, time.Minute, 20*time.Millisecond, "dead letters")
	for _, payload := range want {
		require.Contains(t, got, payload)
	}
	require.Len(t, got, len(want))
}

// write commits payments and the jobs that publish them, and two messages that are no payments.
func write(t *testing.T, at *place, jobs *river.Client[pgx.Tx]) {
	t.Helper()
	var all []river.InsertManyParams
	require.NoError(t, pgx.BeginFunc(t.Context(), at.pool, func(tx pgx.Tx) error {
		for i := range *messages {
			m, err := writePayment(t.Context(), tx, at, i)
			if err != nil {
				return err
			}
			all = append(all, river.InsertManyParams{Args: m})
		}
		for i := range 2 {
			m := Message{Key: fmt.Sprint("bad-", i), Topic: at.topic, Account: fmt.Sprint("a", i), Payload: fmt.Append(nil, "no payment ", i)}
			all = append(all, river.InsertManyParams{Args: m})
		}
		_, err := jobs.InsertManyTx(t.Context(), tx, all)
		return err
	}))
}

// writePayment writes the i-th payment, and returns the message about it.
func writePayment(ctx context.Context, tx pgx.Tx, at *place, i int) (Message, error) {
	p := Payment{ID: childkey.MustNew().String(), Account: fmt.Sprint("a", i%20), Cents: int64(i + 1)}
	if _, err := tx.Exec(ctx, "insert into payment values ($1, $2, $3)", p.ID, p.Account, p.Cents); err != nil {
		return Message{}, err
	}
	payload, err := json.Marshal(p)
	return Message{Key: p.ID, Topic: at.topic, Account: p.Account, Payload: payload}, err
}

// startJobs publishes until the test ends, one message in ten twice. It returns how many copies it sent.
func startJobs(t *testing.T, at *place) (jobs *river.Client[pgx.Tx], copies *atomic.Int64) {
	t.Helper()
	o := at.options()
	to, err := o.connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(to.close)
	copies = new(atomic.Int64)
	jobs, err = o.newJobs(at.pool, twice(to.publish, copies))
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, jobs.Start(ctx))
	t.Cleanup(func() { require.NoError(t, jobs.Stop(ctx)) })
	return jobs, copies
}

// twice sends copies of one message in ten. Half of the copies go with their messages, so that ledgers have both at the
// same time. The others go later, as after a lost confirmation.
func twice(publish func(context.Context, Message) error, copies *atomic.Int64) func(context.Context, Message) error {
	return func(ctx context.Context, m Message) error {
		switch rand.IntN(20) {
		case 0:
			copies.Add(1)
			var both sync.WaitGroup
			defer both.Wait()
			both.Go(func() { _ = publish(ctx, m) })
		case 1:
			copies.Add(1)
			return errors.Join(publish(ctx, m), context.DeadlineExceeded)
		}
		return publish(ctx, m)
	}
}

// unpublished counts the jobs that are not done. A job may be done before River has recorded it.
const unpublished = "select count(*) from river_job where state <> 'completed'"

func count(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func (p *place) untilBooked(t *testing.T, n int) {
	t.Helper()
	booked := func() int { return count(t, p.pool, "select count(*) from entry") }
	enough := func() bool {
		p.expire(t)
		return booked() >= n
	}
	if !assert.Eventually(t, enough, 3*time.Minute, 10*time.Millisecond) {
		t.Fatalf("%d are booked, want %d; %d are not published, %d are not acknowledged", booked(), n,
			count(t, p.pool, unpublished), p.waiting(t))
	}
}

// untilQuiet waits until every message is published and acknowledged, copies included.
func (p *place) untilQuiet(t *testing.T) {
	t.Helper()
	var jobs, waiting int
	quiet := func() bool {
		p.expire(t)
		jobs, waiting = count(t, p.pool, unpublished), p.waiting(t)
		return jobs+waiting == 0
	}
	if !assert.Eventually(t, quiet, time.Minute, 20*time.Millisecond) {
		t.Fatalf("%d messages are not published, %d are not acknowledged", jobs, waiting)
	}
}

// endWithTest ends a process whose test has ended without killing it: after a panic or a timeout. The pipe of its stdin
// is closed then.
func endWithTest() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// startTimeout is long for a process that starts beside other work. A broker that does not answer must end the test with
// a message, and not with the time of the whole binary.
const startTimeout = 3 * time.Minute

// A process is this program.
type process struct {
	cmd   *exec.Cmd
	ready string
	at    *place
}

// start starts a process, and waits until it is ready.
func (p *place) start(t *testing.T, command string, more ...string) *process {
	t.Helper()
	o := p.options()
	args := append([]string{
		command, "-database", o.database, "-broker", o.broker, "-topic", o.topic, "-lease", o.lease.String(), "-ack-wait", o.ackWait.String(), "-non-durable",
	}, more...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...)
	cmd.Env = append(os.Environ(), processEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe() // see endWithTest
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	late := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s was not ready within %v", command, startTimeout)
	require.True(t, late.Stop(), "%s was not ready within %v", command, startTimeout)
	require.True(t, strings.HasPrefix(line, "ready"), line)
	return &process{cmd, strings.TrimSpace(line), p}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	p.at.killed[p.cmd.Process.Pid] = time.Now()
}

// stop stops a process as a platform does.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, p.cmd.Wait())
}
