package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Config configures [Start]. The zero Config is one server as nats-server starts by default.
type Config struct {
	// Nodes is the number of servers: 1, or 3 to 5 for a cluster. Zero means 1.
	Nodes int
	// SyncAlways is sync_interval: always. False is nats-server's default, two minutes.
	SyncAlways bool
	// MaxPayload is the longest message. Zero means nats-server's default, 1 MiB.
	MaxPayload int32
	// Dir is the folder for the servers' files. Empty means a temporary folder, which goes with the servers.
	Dir string
}

// TB is the part of testing.TB that the package needs, so that a command can use it too.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	TempDir() string
}

// Servers are running servers. Its methods are not safe for concurrent use.
type Servers struct {
	nodes   []node
	running []*process
}

// A process is a server's process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // the server ends when it is closed
	ended chan struct{}
}

// Start starts servers and waits until they take connections, and until a cluster has a leader. The test ends them.
// The process must call [Main] at its start.
func Start(tb TB, cfg Config) *Servers {
	tb.Helper()
	n := max(cfg.Nodes, 1)
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	ports := freePorts(tb, 2*n)
	s := &Servers{running: make([]*process, n)}
	for i := range n {
		it := node{
			Name: fmt.Sprintf("n%d", i), Dir: filepath.Join(cfg.Dir, fmt.Sprintf("n%d", i)), Port: ports[i],
			SyncAlways: cfg.SyncAlways, MaxPayload: cfg.MaxPayload,
		}
		if n > 1 {
			it.Cluster, it.Routes = ports[n+i], ports[n:]
		}
		s.nodes = append(s.nodes, it)
	}
	tb.Cleanup(s.stop)
	for i := range s.nodes {
		s.launch(tb, i)
	}
	s.ready(tb)
	return s
}

// freePorts returns ports that nobody listens on at this moment.
func freePorts(tb TB, n int) (ports []int) {
	tb.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("natstest: %v", err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// launch starts the process of server i.
func (s *Servers) launch(tb TB, i int) {
	tb.Helper()
	told, err := json.Marshal(s.nodes[i])
	if err != nil {
		tb.Fatalf("natstest: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("natstest: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), settings+"="+string(told))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatalf("natstest: %v", err)
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // a killed server ends with an error
	}()
	s.running[i] = p
}

// patience bounds the start of a server or of a cluster.
const patience = time.Minute

// ready waits until every running server takes requests of JetStream.
func (s *Servers) ready(tb TB) {
	tb.Helper()
	for i, p := range s.running {
		if p == nil {
			continue
		}
		var err error
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if err = s.asks(i); err == nil {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatalf("natstest: server %d is not ready after %v: %v", i, patience, err)
			}
		}
	}
}

// asks makes one request to server i.
func (s *Servers) asks(i int) error {
	conn, err := nats.Connect(s.nodes[i].url(appUser), nats.MaxReconnects(0), nats.Timeout(time.Second), nats.DontRandomize())
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Request("$JS.API.INFO", nil, time.Second)
	if err != nil {
		return err
	}
	if strings.Contains(string(reply.Data), `"error"`) {
		return errors.New(string(reply.Data))
	}
	return nil
}

// URL returns the addresses of all servers, for nats.Connect. The user's account has JetStream.
func (s *Servers) URL() string { return s.urls(appUser) }

// SystemURL is [Servers.URL] for the system account.
func (s *Servers) SystemURL() string { return s.urls(systemUser) }

func (s *Servers) urls(user string) string {
	var urls []string
	for _, n := range s.nodes {
		urls = append(urls, n.url(user))
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection that reconnects as long as the test lasts.
func (s *Servers) Connect(tb TB) *nats.Conn {
	tb.Helper()
	return connect(tb, s.URL())
}

// ConnectSystem is [Servers.Connect] for the system account.
func (s *Servers) ConnectSystem(tb TB) *nats.Conn {
	tb.Helper()
	return connect(tb, s.SystemURL())
}

func connect(tb TB, url string) *nats.Conn {
	tb.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.Timeout(5*time.Second))
	if err != nil {
		tb.Fatalf("natstest: %v", err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// Kill kills server i with SIGKILL and waits for its end. Data that it has written stays in the kernel's page cache: a
// kill is no power failure. A server that does not run stays as it is.
func (s *Servers) Kill(i int) {
	if p := s.running[i]; p != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.stdin.Close()
		s.running[i] = nil
	}
}

// Process returns the process id of server i; 0 if it does not run. On Linux every process of the same user may trace
// it, as strace does.
func (s *Servers) Process(i int) int {
	if p := s.running[i]; p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Restart starts killed servers again, on their files, and waits until they take requests. Of a cluster most must run.
func (s *Servers) Restart(tb TB, numbers ...int) {
	tb.Helper()
	for _, i := range numbers {
		if s.running[i] == nil {
			s.launch(tb, i)
		}
	}
	s.ready(tb)
}

// Leader returns the server that leads a stream, or -1 if there is none at this moment.
func (s *Servers) Leader(conn *nats.Conn, stream string) int {
	reply, err := conn.Request("$JS.API.STREAM.INFO."+stream, nil, time.Second)
	if err != nil {
		return -1
	}
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if json.Unmarshal(reply.Data, &info) != nil {
		return -1
	}
	for i, n := range s.nodes {
		if n.Name == info.Cluster.Leader {
			return i
		}
	}
	return -1
}

// stop ends all servers.
func (s *Servers) stop() {
	for i := range s.running {
		s.Kill(i)
	}
}
