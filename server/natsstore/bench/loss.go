package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/store"
)

type lossConfig struct {
	servers  natstest.Config
	callers  int
	keys     int
	every    time.Duration
	together bool
	power    bool // a killed server also loses its unflushed writes
}

// A losses is the result of [loss].
type losses struct {
	cfg            lossConfig
	kills, leaders int64
	claims         int64 // acknowledged
	completions    int64 // acknowledged
	lostClaims     int64 // of the acknowledged ones: the record is gone, or is another's
	lostAnswers    int64
	secondRuns     int64 // a key whose claim was won twice
	errors         int64 // calls without an answer in their time: repeated
	bytes          int64 // unflushed, and cut off
	took           time.Duration
}

func (r *losses) clean() bool { return r.lostClaims+r.lostAnswers+r.secondRuns == 0 }

// String is one line of a report.
func (r *losses) String() string {
	return fmt.Sprintf("%d server(s), always %v, together %v, power %v, %d keys in %.0f s: %d kills (%d of the leader), %d claims and %d completions "+
		"acknowledged, %d claims lost, %d answers lost, %d second runs, %d calls without an answer, %d bytes lost",
		max(r.cfg.servers.Nodes, 1), r.cfg.servers.SyncAlways, r.cfg.together, r.cfg.power, r.cfg.keys, r.took.Seconds(), r.kills, r.leaders, r.claims,
		r.completions, r.lostClaims, r.lostAnswers, r.secondRuns, r.errors, r.bytes)
}

// A key is one key of the run, and what was acknowledged about it. One caller has it at a time.
type key struct {
	id        store.ID
	owner     store.Owner
	claimed   bool
	completed bool
}

// loss claims and completes every key while servers are killed, asks for each key again a little later, and reads all
// of them at the end.
func loss(ctx context.Context, tb natstest.TB, cfg lossConfig) *losses {
	servers := natstest.Start(tb, cfg.servers)
	conn := servers.Connect(tb)
	s := open(ctx, tb, conn, max(cfg.servers.Nodes, 1))
	defer s.Close()
	r := &losses{cfg: cfg}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.kill(tb, servers, conn, done)
	}()
	start := time.Now()
	keys := r.run(ctx, tb, s)
	close(done)
	<-ended
	r.took = time.Since(start)
	r.audit(ctx, tb, s, keys)
	return r
}

// run lets the callers work on all keys.
func (r *losses) run(ctx context.Context, tb natstest.TB, s *natsstore.Store) []key {
	keys := make([]key, r.cfg.keys)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range r.cfg.callers {
		wg.Go(func() {
			var mine []*key
			for {
				i := next.Add(1) - 1
				if i >= int64(len(keys)) {
					return
				}
				k := &keys[i]
				k.id = random16()
				r.first(ctx, tb, s, k)
				if mine = append(mine, k); rand.IntN(2) == 0 {
					r.again(ctx, tb, s, mine[rand.IntN(len(mine))])
				}
			}
		})
	}
	wg.Wait()
	return keys
}

// first claims and completes a key. A claim of unknown fate is repeated with its token, as a caller's retry would be.
func (r *losses) first(ctx context.Context, tb natstest.TB, s *natsstore.Store, k *key) {
	req := request(k.id)
	r.insist(ctx, tb, func() error {
		rec, won, err := s.Claim(ctx, req)
		if err == nil && won {
			k.claimed, k.owner = true, store.Owner{ID: k.id, Token: rec.Token, Fence: rec.Fence}
		}
		return err
	})
	if !k.claimed { // its claim was acknowledged to nobody
		return
	}
	atomic.AddInt64(&r.claims, 1)
	r.insist(ctx, tb, func() error {
		err := s.Settle(ctx, k.owner, completion)
		if errors.Is(err, store.ErrLeaseLost) { // the claim is gone: the audit counts it
			return nil
		}
		k.completed = err == nil
		return err
	})
	if k.completed {
		atomic.AddInt64(&r.completions, 1)
	}
}

// again is a duplicate of an earlier request. If it wins, the handler would run a second time.
func (r *losses) again(ctx context.Context, tb natstest.TB, s *natsstore.Store, k *key) {
	if !k.claimed {
		return
	}
	r.insist(ctx, tb, func() error {
		_, won, err := s.Claim(ctx, request(k.id))
		if err == nil && won {
			atomic.AddInt64(&r.secondRuns, 1)
		}
		return err
	})
}

// insist repeats do until it has an answer.
func (r *losses) insist(ctx context.Context, tb natstest.TB, do func() error) {
	for deadline := time.Now().Add(5 * time.Minute); ; {
		err := do()
		if err == nil {
			return
		}
		atomic.AddInt64(&r.errors, 1)
		if time.Now().After(deadline) || ctx.Err() != nil {
			tb.Fatalf("no answer: %v", err)
		}
	}
}

// kill kills servers with SIGKILL until done: the leader and another one in turns, or all at once.
func (r *losses) kill(tb natstest.TB, servers *natstest.Servers, conn *nats.Conn, done <-chan struct{}) {
	n := max(r.cfg.servers.Nodes, 1)
	watched := r.watch(tb, servers)
	defer func() { watched.end() }()
	for round := 0; ; round++ {
		select {
		case <-done:
			return
		case <-time.After(r.cfg.every):
		}
		leader := servers.Leader(conn, "KV_"+natsstore.DefaultBucket)
		var victims []int
		switch {
		case r.cfg.together || n == 1:
			for i := range n {
				victims = append(victims, i)
			}
		case round%2 == 0 && leader >= 0:
			victims = []int{leader}
		default:
			victims = []int{round % n}
		}
		for _, i := range victims {
			servers.Kill(i)
			r.bytes += watched.cut(tb, i)
			r.kills++
			if i == leader {
				r.leaders++
			}
		}
		if !r.cfg.together && n > 1 { // let the others elect a leader and go on alone for a while
			time.Sleep(r.cfg.every / 2)
		}
		servers.Restart(tb, victims...)
		watched.add(tb, servers, victims...)
	}
}

// watch watches what every server flushes, if that matters. Otherwise it returns nil.
func (r *losses) watch(tb natstest.TB, servers *natstest.Servers) *disks {
	if !r.cfg.power {
		return nil
	}
	d := &disks{tracers: make(map[int]*tracer)}
	for i := range max(r.cfg.servers.Nodes, 1) {
		d.add(tb, servers, i)
	}
	return d
}

// audit reads every key, and asks for each of them once more.
func (r *losses) audit(ctx context.Context, tb natstest.TB, s *natsstore.Store, keys []key) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range r.cfg.callers {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(keys)) {
					return
				}
				if k := &keys[i]; k.claimed {
					r.look(ctx, tb, s, k)
				}
			}
		})
	}
	wg.Wait()
}

func (r *losses) look(ctx context.Context, tb natstest.TB, s *natsstore.Store, k *key) {
	rec, err := s.Read(ctx, k.id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		tb.Fatalf("%v", err)
	}
	switch {
	case err != nil || rec.Token != k.owner.Token || rec.Fence != k.owner.Fence:
		atomic.AddInt64(&r.lostClaims, 1)
	case k.completed && rec.State != store.StateCompleted:
		atomic.AddInt64(&r.lostAnswers, 1)
	}
	r.again(ctx, tb, s, k)
}
