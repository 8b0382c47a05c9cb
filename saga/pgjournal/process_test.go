package pgjournal_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	osexec "os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// The environment of a process that a test starts.
const (
	processRole = "PGJOURNAL_TEST_ROLE"
	processJob  = "PGJOURNAL_TEST_JOB"

	roleRun   = "run"   // runs one saga, and may die or stand still meanwhile
	roleDrain = "drain" // takes over what it finds, until its standard input ends
)

// A job is what a process is told.
type job struct {
	Database, Callees   string
	In                  journey
	Kill                killPoint
	Lease               time.Duration
	Poll                time.Duration // of who drains; 0: quickPoll
	MaxRecoveryAttempts int
	MaxActive           int // 0: the default
	// Hear is what its engine must have told before it ends; "": nothing.
	Hear journal.EventKind
}

// A killPoint is where a process ends itself by SIGKILL: at the N-th of something,
// counted from when its engine is open. The zero one is nowhere.
type killPoint struct {
	When string
	N    int64
	Stop bool // it stands still there, until the test wakes it
}

const (
	beforeStatement = "before a statement is sent"
	afterStatement  = "after a statement was answered"
	atStepBoundary  = "before a call is sent, or after it was answered"
	beforeWrite     = "before a saga's outcome is written"
	duringCall      = "while a callee works"
)

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until it arrives
}

// standStill stops the whole process. The signal may take a moment to reach its other
// threads, and this one: it goes on when the test says so, and not before.
func standStill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// A killer counts down to the end of its process.
type killer struct {
	point killPoint
	armed atomic.Bool
	count atomic.Int64
}

func (k *killer) pass(when string) {
	if !k.armed.Load() || when != k.point.When || k.count.Add(1) != k.point.N {
		return
	}
	if k.point.Stop {
		standStill()
		return
	}
	die()
}

// A deadlyConn is a connection to the server. One Write of pgx is one round trip.
type deadlyConn struct {
	net.Conn
	killer  *killer
	written atomic.Bool
}

func (c *deadlyConn) Write(b []byte) (int, error) {
	c.killer.pass(beforeStatement)
	if bytes.Contains(b, []byte("i.entry_room")) { // as in append.sql alone
		c.killer.pass(beforeWrite)
	}
	c.written.Store(true)
	return c.Conn.Write(b)
}

func (c *deadlyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.written.Swap(false) {
		c.killer.pass(afterStatement)
	}
	return n, err
}

// RoundTrip makes a killer the transport of a client.
func (k *killer) RoundTrip(req *http.Request) (*http.Response, error) {
	k.pass(atStepBoundary)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { k.pass(duringCall) },
	}))
	resp, err := http.DefaultTransport.RoundTrip(req)
	k.pass(atStepBoundary)
	return resp, err
}

// deadly takes the process with it that runs it for the trip called poison.
var deadly = saga.MustDefine("deadly", 1, func(b *saga.Builder[journey, nothing]) {
	saga.StepFunc(b, "x.x", b.Input(), func(_ context.Context, c saga.Call[journey]) (nothing, error) {
		if c.Input.Trip == "poison" {
			die()
		}
		return nothing{}, nil
	}).ReadOnly()
})

// process is the main function of a process that a test starts.
func process(role string) int {
	var todo job
	err := json.Unmarshal([]byte(os.Getenv(processJob)), &todo)
	if err == nil {
		err = work(role, todo)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func work(role string, todo job) error {
	ctx := context.Background()
	k := &killer{point: todo.Kill}
	cfg, err := pgxpool.ParseConfig(todo.Database)
	if err != nil {
		return err
	}
	cfg.MaxConns = 4
	cfg.ConnConfig.RuntimeParams["application_name"] = sessionsOf(os.Getpid())
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip a statement
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &deadlyConn{Conn: conn, killer: k}, err
	}
	j, err := pgjournal.Open(ctx, cfg, pgjournal.Config{AllowNonDurable: true})
	if err != nil {
		return err
	}
	defer j.Close()
	c, err := newClient(todo.Callees, k)
	if err != nil {
		return err
	}
	var kept journal.Journal = j
	poll := cmp.Or(todo.Poll, quickPoll)
	if role == roleRun { // its statements are those of its saga, and it leaves no other
		kept, poll = aloof{j}, time.Hour
	}
	h := &hearing{kind: todo.Hear, heard: make(chan struct{})}
	e, err := saga.Open(ctx, kept, saga.Config{
		Client:      c,
		Definitions: []saga.AnyDefinition{trip, deadly}, Lease: todo.Lease, Poll: poll, MaxRecoveryAttempts: todo.MaxRecoveryAttempts, MaxActive: todo.MaxActive, Observer: h,
	})
	if err != nil {
		return err
	}
	k.armed.Store(true)
	if role == roleDrain {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return e.Close(ctx)
	}
	key, err := childkey.FromParts("trip", todo.In.Trip)
	if err != nil {
		return err
	}
	if _, err := trip.Run(ctx, e, key, todo.In); err != nil && !todo.In.Refuse {
		return err
	}
	k.pass(atStepBoundary)
	k.armed.Store(false)
	if err := h.wait(); err != nil {
		return err
	}
	return e.Close(ctx)
}

// An aloof engine takes over nothing.
type aloof struct{ journal.Journal }

func (aloof) Claim(context.Context, journal.ClaimRequest) ([]journal.Record, error) { return nil, nil }

// A hearing waits until an engine tells of something.
type hearing struct {
	kind  journal.EventKind
	once  sync.Once
	heard chan struct{}
}

func (h *hearing) Observe(_ context.Context, e saga.Event) {
	if e.Kind == h.kind {
		h.once.Do(func() { close(h.heard) })
	}
}

func (h *hearing) wait() error {
	if h.kind == "" {
		return nil
	}
	select {
	case <-h.heard:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("the engine never told of %q", h.kind)
	}
}

// A child is a process that a test started.
type child struct {
	*os.Process
	stdin io.WriteCloser
	out   bytes.Buffer // after done
	done  chan error   // how it ended
}

func spawn(t *testing.T, role string, todo job) *child {
	t.Helper()
	data, err := json.Marshal(todo)
	require.NoError(t, err)
	c := &child{done: make(chan error, 1)}
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), processRole+"="+role, processJob+"="+string(data))
	cmd.Stdout, cmd.Stderr = &c.out, &c.out
	c.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c.Process = cmd.Process
	go func() { c.done <- cmd.Wait() }()
	return c
}

// spawnDrains starts processes that drain, and returns when their engines are there.
func spawnDrains(t *testing.T, look *pgxpool.Pool, n int, todo job) []*child {
	t.Helper()
	const engines = "select count(*) from saga_engine"
	before := queryRow[int](t, look, engines)
	drains := make([]*child, n)
	for i := range drains {
		drains[i] = spawn(t, roleDrain, todo)
	}
	until(t, "the processes have their engines", func() bool { return queryRow[int](t, look, engines) == before+n })
	return drains
}

// sessionsOf is the name of a process' sessions.
func sessionsOf(pid int) string { return fmt.Sprint("process ", pid) }

// lapse ends the lease of a killed process that owned the saga, once none of its statements is
// running any more. So no test waits for the lease. The lease can be so long that a living engine
// does not lose its own lease on a slow machine.
func (c *child) lapse(t *testing.T, look *pgxpool.Pool, id journal.ID) {
	t.Helper()
	until(t, "its sessions have ended", func() bool {
		return queryRow[bool](t, look, "select not exists (select from pg_stat_activity where application_name = $1)", sessionsOf(c.Pid))
	})
	exec(t, look, "update saga_engine set lease_until = clock_timestamp() where id = (select engine from saga where id = $1)", [16]byte(id))
}

// wake has a process go on that stands still.
func (c *child) wake(t *testing.T) {
	t.Helper()
	_, err := c.stdin.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, c.Signal(syscall.SIGCONT))
}

// end tells a process that drains to end, and waits for that.
func (c *child) end(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	require.NoError(t, <-c.done, "%s", &c.out)
}
