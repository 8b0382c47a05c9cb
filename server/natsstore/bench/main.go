// Bench measures natsstore on this machine: its speed beside a bare key-value bucket, and what a failure of the servers
// loses.
//
//	go run . speed                               # 64 callers, one server and three, interleaved with the bare bucket
//	go run . loss -nodes 3 -always -keys 100000  # kills servers, counts lost claims and second runs
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

func main() {
	natstest.Main()
	if len(os.Args) < 2 {
		log.Fatal("usage: bench speed|loss [flags]")
	}
	set := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	nodes := set.Int("nodes", 1, "servers and replicas")
	always := set.Bool("always", false, "sync_interval: always")
	callers := set.Int("callers", 64, "concurrent callers")
	keys := set.Int("keys", 100_000, "loss: keys")
	every := set.Duration("every", 5*time.Second, "loss: time between kills")
	together := set.Bool("together", false, "loss: kill all servers at once instead of the leader and the others in turn")
	power := set.Bool("power", false, "loss: a killed server also loses its unflushed writes, as without power; needs strace")
	rounds := set.Int("rounds", 6, "speed: rounds of two seconds")
	_ = set.Parse(os.Args[2:])

	tb := &process{}
	defer tb.end()
	ctx := context.Background()
	switch os.Args[1] {
	case "speed":
		r := speed(ctx, tb, natstest.Config{Nodes: *nodes, SyncAlways: *always}, *callers, *rounds, time.Second)
		fmt.Println(r)
	case "loss":
		r := loss(ctx, tb, lossConfig{
			servers: natstest.Config{Nodes: *nodes, SyncAlways: *always}, callers: *callers, keys: *keys, every: *every, together: *together,
			power: *power,
		})
		fmt.Println(r)
		if *always && !r.clean() {
			tb.end()
			os.Exit(1)
		}
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}

// A process is the natstest.TB of a command.
type process struct {
	mu       sync.Mutex
	cleanups []func()
}

func (p *process) Helper() {}

func (p *process) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *process) Fatalf(format string, args ...any) {
	p.end()
	log.Fatalf(format, args...)
}

func (p *process) TempDir() string {
	dir, err := os.MkdirTemp("", "natsstore-bench")
	if err != nil {
		log.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *process) end() {
	p.mu.Lock()
	cleanups := p.cleanups
	p.cleanups = nil
	p.mu.Unlock()
	for i := len(cleanups) - 1; i >= 0; i-- {
		cleanups[i]()
	}
}
