package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// startRabbitMQ uses the one RabbitMQ of this test binary.
func startRabbitMQ(t *testing.T, at *place) {
	t.Helper()
	address := rabbitMQ(t)
	p := startProxy(t, address)
	at.url, at.ackWait, at.mute, at.gate = "amqp://guest:guest@"+p.address, time.Second, p.mute.Store, p.gate
	direct := at.options()
	direct.broker = "amqp://guest:guest@" + address
	conn, ch, err := dialRabbitMQ(t.Context(), direct)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	at.waiting = func(t *testing.T) int {
		t.Helper()
		q, err := ch.QueueDeclarePassive(at.topic+"."+group, true, false, false, false, nil)
		require.NoError(t, err)
		return q.Messages
	}
	at.dead = func(t *testing.T) (payloads []string) { // each letter once
		t.Helper()
		for {
			d, ok, err := ch.Get(at.topic+deadSuffix, true)
			require.NoError(t, err)
			if !ok {
				return payloads
			}
			require.Equal(t, "rejected", d.Headers["x-first-death-reason"])
			payloads = append(payloads, string(d.Body))
		}
	}
}

// A message without a message-id goes to the dead letters: the ledger could not recognize a copy of it.
func TestRabbitMQ_withoutMessageID(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	startRabbitMQ(t, at)
	conn, ch, err := dialRabbitMQ(t.Context(), at.options())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	const good = `{"ID": "p1", "Account": "a", "Cents": 1}`
	require.NoError(t, ch.PublishWithContext(t.Context(), at.topic, "", true, false, amqp.Publishing{Body: []byte(good)}))
	l := at.start(t, "ledger")
	requireDead(t, at, good)
	l.stop(t)
	require.Zero(t, at.waiting(t))
	require.Zero(t, count(t, at.pool, "select count(*) from entry"))
}

// A message that no queue takes counts as not published, although the broker confirms it.
func TestRabbitMQ_noQueue(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	startRabbitMQ(t, at)
	conn, ch, err := dialRabbitMQ(t.Context(), at.options())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := newRabbitPublisher(at.options())
	t.Cleanup(p.close)
	require.NoError(t, p.publish(t.Context(), newMessage(at.topic)))
	require.NoError(t, ch.QueueUnbind(at.topic+"."+group, "", at.topic, nil))
	require.ErrorContains(t, p.publish(t.Context(), newMessage(at.topic)), "NO_ROUTE")
	require.NoError(t, p.publish(t.Context(), newMessage(at.topic)), "a new connection declares the queue's binding again")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.publish(ended, newMessage(at.topic)))
	require.NoError(t, p.publish(t.Context(), newMessage(at.topic)))
}

// A message counts as published only when the broker has confirmed it. A late confirmation counts for no other message.
func TestRabbitMQ_unconfirmed(t *testing.T) {
	t.Parallel()
	at := newPlace(t)
	startRabbitMQ(t, at)
	p := newRabbitPublisher(at.options())
	t.Cleanup(p.close)
	for _, err := range publishThree(t.Context(), p, at.topic) {
		require.NoError(t, err)
	}
	at.mute(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	for _, err := range publishThree(ctx, p, at.topic) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Less(t, time.Since(began), 5*time.Second, "a worker may not outlive its job's timeout")
	at.mute(false)
	for _, err := range publishThree(t.Context(), p, at.topic) {
		require.NoError(t, err)
	}
	require.Equal(t, 6, at.waiting(t))
}

// publishThree publishes three messages at the same time.
func publishThree(ctx context.Context, p *rabbitPublisher, topic string) (failures [3]error) {
	var running sync.WaitGroup
	for i := range failures {
		running.Go(func() { failures[i] = p.publish(ctx, newMessage(topic)) })
	}
	running.Wait()
	return failures
}

var rabbit struct {
	once    sync.Once
	address string
	err     error
	server  *rabbitServer
}

var errNoRabbitMQ = errors.New("there is no rabbitmq-server (Debian package rabbitmq-server): RabbitMQ is not tested")

// rabbitMQ returns the address of a RabbitMQ. The first call starts it. Where it is not installed t is skipped.
func rabbitMQ(t *testing.T) string {
	t.Helper()
	rabbit.once.Do(func() { rabbit.server, rabbit.address, rabbit.err = startRabbitServer() })
	if errors.Is(rabbit.err, errNoRabbitMQ) {
		t.Skip(rabbit.err)
	}
	require.NoError(t, rabbit.err)
	return rabbit.address
}

func stopRabbitMQ() {
	if rabbit.server != nil {
		rabbit.server.stop()
	}
}

// A rabbitServer is a RabbitMQ of the test binary's own: a shell, an epmd and an Erlang machine, in a process group.
type rabbitServer struct {
	folder string
	shell  *exec.Cmd
	hold   io.Closer // the shell's standard input
	log    bytes.Buffer
}

// rabbitScript runs a server until its standard input ends, as it also does if the test binary is killed. The server
// would start an epmd that nobody stops, so that it finds one here.
const rabbitScript = `
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
"$1" </dev/null &
read -r _
kill -KILL 0
`

// startRabbitServer starts a server on free ports. Another process may take one of them first: then it starts again.
func startRabbitServer() (s *rabbitServer, address string, err error) {
	program := "/usr/lib/rabbitmq/bin/rabbitmq-server" // Debian's other one is for root and the user rabbitmq only
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("rabbitmq-server"); err != nil {
			return nil, "", errNoRabbitMQ
		}
	}
	for range 3 {
		s = new(rabbitServer)
		if address, err = s.start(program); err == nil {
			return s, address, nil
		}
		s.stop()
		err = fmt.Errorf("rabbitmq-server: %w\n%s", err, s.log.String())
	}
	return nil, "", err
}

func (r *rabbitServer) start(program string) (address string, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return "", err
	}
	if r.folder, err = os.MkdirTemp("", "consumer-rabbitmq-"); err != nil {
		return "", err
	}
	plugins := filepath.Join(r.folder, "plugins")
	if err := os.WriteFile(plugins, []byte("[]."), 0o600); err != nil {
		return "", err
	}
	r.shell = exec.Command("sh", "-c", rabbitScript, "sh", program)
	r.shell.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + r.folder, // there is the cookie
		"RABBITMQ_NODENAME=consumer" + ports[0] + "@localhost", "RABBITMQ_MNESIA_BASE=" + r.folder, "RABBITMQ_LOG_BASE=" + r.folder,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins, "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(r.folder, "none"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(r.folder, "none"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(r.folder, "none"),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0], "RABBITMQ_DIST_PORT=" + ports[1],
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + ports[2],
	}
	r.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.shell.Stdout, r.shell.Stderr = &r.log, &r.log
	if r.hold, err = r.shell.StdinPipe(); err != nil {
		return "", err
	}
	if err := r.shell.Start(); err != nil {
		return "", err
	}
	address = "127.0.0.1:" + ports[0]
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		conn, err := amqp.Dial("amqp://guest:guest@" + address)
		if err == nil {
			return address, conn.Close()
		}
	}
	return "", errors.New("it did not start within two minutes")
}

// stop ends the processes of the group, and waits for their ends.
func (r *rabbitServer) stop() {
	if r.shell != nil && r.shell.Process != nil {
		_ = r.hold.Close()
		_ = r.shell.Wait()
		for syscall.Kill(-r.shell.Process.Pid, 0) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	_ = os.RemoveAll(r.folder)
}

func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // after the last one, so that all are different
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
