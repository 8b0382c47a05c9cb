package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A story is what happened to a checkout.
type story struct {
	spans   []span
	killed  time.Time      // the first shop
	effects map[string]int // rows by service
	receipt int
}

// services are those that the shop calls.
var services = []string{"inventory", "payment", "shipping"}

// A stage has the processes of a play.
type stage struct {
	cluster   *pgtest.Cluster
	folder    string
	databases map[string]string // by service
	running   map[string]*process
}

// A process is a service in a process of its own.
type process struct {
	cmd     *exec.Cmd
	address string
	lines   chan string // that it prints after its address
}

// play plays the checkout.
func play(ctx context.Context) (_ *story, err error) {
	s := &stage{databases: make(map[string]string), running: make(map[string]*process)}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	result, err := s.checkout(ctx)
	if err != nil {
		return nil, err
	}
	for name := range s.running {
		more, err := readSpans(s.file(name))
		if err != nil {
			return nil, err
		}
		result.spans = append(result.spans, more...)
	}
	more, err := readSpans(s.file("client"))
	result.spans = append(result.spans, more...)
	return result, err
}

// open starts the services, and two shops over one database.
func (s *stage) open(ctx context.Context) (err error) {
	if s.folder, err = os.MkdirTemp("", "onetrace-"); err != nil {
		return err
	}
	if s.cluster, err = pgtest.Start(ctx, pgtest.Config{Private: true}); err != nil {
		return err
	}
	urls := make(map[string]string)
	for _, name := range append([]string{"shop"}, services...) {
		if s.databases[name], err = s.cluster.CreateDatabase(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range services {
		p, err := s.launch(ctx, name, config{Service: name})
		if err != nil {
			return err
		}
		urls[name] = "http://" + p.address
	}
	for _, name := range []string{"shop-1", "shop-2"} {
		_, err := s.launch(ctx, name, config{
			Service: "shop", Inventory: urls["inventory"], Payment: urls["payment"], Shipping: urls["shipping"],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) file(process string) string { return filepath.Join(s.folder, process+".json") }

// launch starts this program as a service, and waits for its address.
func (s *stage) launch(ctx context.Context, name string, cfg config) (*process, error) {
	cfg.Process, cfg.Database, cfg.Spans = name, s.databases[cfg.Service], s.file(name)
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self), lines: make(chan string, 16)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), variable+"="+string(text)), os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.running[name] = p
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	p.address = <-p.lines
	if p.address == "" {
		return nil, fmt.Errorf("%s did not start", name)
	}
	return p, nil
}

// checkout places the order, and kills the first shop while the payment works.
func (s *stage) checkout(ctx context.Context) (*story, error) {
	t, err := newTelemetry("client", s.file("client"))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: s.dial}
	defer transport.CloseIdleConnections()
	client, err := t.client(map[string]string{"shop": "http://shop"}, transport)
	if err != nil {
		return nil, err
	}
	result := &story{effects: make(map[string]int)}
	first, dead := s.running["shop-1"], make(chan error, 1)
	go func() {
		<-s.running["payment"].lines
		time.Sleep(250 * time.Millisecond)
		result.killed = time.Now()
		dead <- first.cmd.Process.Kill() // SIGKILL
	}()
	ctx, root := t.provider.Tracer("onetrace").Start(ctx, "order")
	result.receipt, err = sdk.Call(childkey.NewContext(ctx, childkey.MustParse("order-1")), client, place, 1300)
	root.End()
	if err = errors.Join(err, <-dead); err != nil {
		return nil, err
	}
	time.Sleep(200 * time.Millisecond) // the last spans end after their answers
	for _, name := range services {
		if result.effects[name], err = effects(ctx, s.databases[name]); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// dial connects to the first shop that listens, as a load balancer does.
func (s *stage) dial(ctx context.Context, network, _ string) (conn net.Conn, err error) {
	for _, name := range []string{"shop-1", "shop-2"} {
		if conn, err = new(net.Dialer).DialContext(ctx, network, s.running[name].address); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// effects counts the rows of a service.
func effects(ctx context.Context, url string) (n int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only read
	return n, conn.QueryRow(ctx, "select count(*) from effects").Scan(&n)
}

// close ends the processes and the database.
func (s *stage) close() (err error) {
	for _, p := range s.running {
		_ = p.cmd.Process.Kill() // it may be dead
		_ = p.cmd.Wait()         // it was killed
	}
	if s.cluster != nil {
		err = s.cluster.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

// summary tells the story in lines.
func (s *story) summary() []string {
	traces := make(map[string]int)
	for _, span := range s.spans {
		traces[span.Trace]++
	}
	return []string{
		fmt.Sprintf("%d spans in %d trace", len(s.spans), len(traces)),
		fmt.Sprintf("effects: inventory %d, payment %d, shipping %d", s.effects["inventory"], s.effects["payment"], s.effects["shipping"]),
		"processes: " + strings.Join(s.processes(), ", "),
	}
}
