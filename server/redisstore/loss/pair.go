package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// isolated is how long a primary that was replaced still gets calls: its clients are on its side of the partition.
const isolated = 500 * time.Millisecond

// pair is a primary with a replica. The fault is what a partition does: the replica is promoted, as Sentinel would do
// it, while the clients still write to the old primary. Then they find the new one, and the old one follows it.
type pair struct {
	setting      setting
	primary, new *redistest.Server
}

func startPair(s setting) (system, error) {
	primary, err := redistest.New(s.options...)
	if err != nil {
		return nil, err
	}
	replica, err := redistest.New(s.options...)
	if err != nil {
		return nil, errors.Join(err, primary.Stop())
	}
	p := &pair{s, primary, replica}
	if err := p.follow(context.Background(), replica, primary); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *pair) addrs() []string { return []string{p.primary.Addr()} }
func (p *pair) stop() error {
	return errors.Join(p.new.Kill(), p.new.Stop(), p.primary.Kill(), p.primary.Stop())
}

// follow makes a server a replica, and waits until it has every write.
func (p *pair) follow(ctx context.Context, replica, primary *redistest.Server) error {
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		return err
	}
	r, m := replica.Client(), primary.Client()
	defer r.Close()
	defer m.Close()
	if err := r.ReplicaOf(ctx, host, port).Err(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n, err := m.Wait(ctx, 1, time.Second).Result(); err == nil && n == 1 {
			return nil
		}
	}
	return fmt.Errorf("%s does not follow", replica.Addr())
}

func (p *pair) fault(ctx context.Context, l *load) error {
	promoted := p.new.Client()
	defer promoted.Close()
	if err := promoted.ReplicaOf(ctx, "no", "one").Err(); err != nil {
		return err
	}
	time.Sleep(isolated)
	p.primary, p.new = p.new, p.primary
	next, err := openStore(ctx, p.setting, p.addrs())
	if err != nil {
		return err
	}
	if err := l.store.Swap(next).Close(); err != nil {
		return err
	}
	return p.follow(ctx, p.new, p.primary)
}
