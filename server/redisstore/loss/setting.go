package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// A setting is a way to run Redis, and the fault that it meets again and again.
type setting struct {
	name    string
	options []string // of the servers
	cfg     redisstore.Config
	every   time.Duration // from one fault to the next
	start   func(s setting) (system, error)
}

// A system is the servers of a setting.
type system interface {
	addrs() []string
	// fault does harm, and repairs it. It returns the addresses to use from then on, and when the old ones could be
	// used again.
	fault(ctx context.Context, l *load) error
	stop() error
}

var (
	always   = []string{"--appendfsync", "always"}
	everysec = []string{"--appendfsync", "everysec"}

	settings = []setting{
		{"single, always, SIGKILL", always, redisstore.Config{}, 2 * time.Second, startSingle},
		{"single, everysec, SIGKILL", everysec, redisstore.Config{}, 2 * time.Second, startSingle},
		{"single, everysec, power loss", everysec, redisstore.Config{}, 4 * time.Second, startPower},
		{"pair, always, isolated primary", always, redisstore.Config{AllowNonDurable: true}, 3 * time.Second, startPair},
		{"pair, always, isolated primary, Replicas 1", always, redisstore.Config{Replicas: 1, WaitTimeout: wait}, 3 * time.Second, startPair},
		{"cluster, everysec, SIGKILL", everysec, redisstore.Config{AllowNonDurable: true}, 2 * time.Second, startCluster},
		{"cluster, everysec, SIGKILL, Replicas 1", everysec, redisstore.Config{Replicas: 1, WaitTimeout: wait}, 2 * time.Second, startCluster},
	}
)

const wait = 200 * time.Millisecond

func openStore(ctx context.Context, s setting, addrs []string) (st *redisstore.Store, err error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		st, err = redisstore.Open(ctx, &redis.UniversalOptions{Addrs: addrs, DialTimeout: 500 * time.Millisecond}, s.cfg)
		if err == nil {
			return st, nil
		}
	}
	return nil, errors.Join(err, ctx.Err())
}

// measure runs one setting.
func measure(ctx context.Context, s setting, n, rate int) (r result, err error) {
	sys, err := s.start(s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sys.stop()) }()
	l := new(load)
	first, err := openStore(ctx, s, sys.addrs())
	if err != nil {
		return r, err
	}
	l.store.Store(first)
	defer func() { err = errors.Join(err, l.store.Load().Close()) }()
	keys := make([]key, n)
	for i := range keys {
		keys[i].id = newID()
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.perform(ctx, keys, rate)
	}()
	faults, err := s.inflict(ctx, sys, l, done)
	<-done
	if err != nil {
		return r, err
	}
	r = l.audit(ctx, keys)
	r.faults = faults
	for i := range keys {
		if ctx.Err() != nil || keys[i].runs == 0 {
			return r, fmt.Errorf("not every key ran: %w", context.Cause(ctx))
		}
	}
	return r, nil
}

// inflict makes faults until the callers are done, and at least one.
func (s setting) inflict(ctx context.Context, sys system, l *load, done <-chan struct{}) (n int, err error) {
	for ; ; n++ {
		select {
		case <-done:
			if n > 0 {
				return n, nil
			}
		case <-ctx.Done():
			return n, context.Cause(ctx)
		case <-time.After(s.every/2 + rand.N(s.every)):
		}
		if err := sys.fault(ctx, l); err != nil {
			return n, err
		}
	}
}

// single is one server that is killed and restarted.
type single struct{ server *redistest.Server }

func startSingle(s setting) (system, error) {
	server, err := redistest.New(s.options...)
	return single{server}, err
}

func (s single) addrs() []string { return []string{s.server.Addr()} }
func (s single) stop() error     { return s.server.Stop() }
func (s single) fault(context.Context, *load) error {
	return errors.Join(s.server.Kill(), s.server.Restart())
}

// cluster is a cluster in which one primary after the other is killed. When its replica has taken its place, it comes
// back as a replica.
type cluster struct{ *redistest.Cluster }

func startCluster(s setting) (system, error) {
	c, err := redistest.NewCluster(s.options...)
	return cluster{c}, err
}

func (c cluster) addrs() []string { return c.Addrs() }
func (c cluster) stop() error     { return c.Stop() }
func (c cluster) fault(ctx context.Context, _ *load) error {
	half := len(c.Nodes) / 2
	i := rand.IntN(half)
	victim, heir := c.Nodes[i], c.Nodes[i+half]
	if !victim.IsPrimary(ctx) {
		victim, heir = heir, victim
	}
	if err := victim.Kill(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); !heir.IsPrimary(ctx); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the replica was not promoted")
		}
	}
	if err := victim.Restart(); err != nil {
		return err
	}
	return c.Ready(ctx)
}
