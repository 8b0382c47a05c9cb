package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// nodes finds the server of a bucket. Calls are sent to one server's client, because a cluster client of go-redis
// repeats a call whose answer was lost, and the repeat of a move would be told that it lost.
type nodes struct {
	store   *Store
	single  *redis.Client        // nil on a cluster
	cluster *redis.ClusterClient // nil on one server

	mu     sync.RWMutex
	queues map[string]*queue // by address
}

func newNodes(s *Store, client redis.UniversalClient) (*nodes, error) {
	n := &nodes{store: s, queues: make(map[string]*queue)}
	switch c := client.(type) {
	case *redis.Client:
		n.single = c
	case *redis.ClusterClient:
		n.cluster = c
	default:
		return nil, fmt.Errorf("%w: a client of type %T", ErrConfig, client)
	}
	return n, nil
}

// queueFor returns the queue of the server that has the bucket.
func (n *nodes) queueFor(ctx context.Context, b *bucket) (*queue, error) {
	if n.single != nil {
		return n.queueOf(n.single), nil
	}
	client, err := n.cluster.MasterForKey(ctx, b.active)
	if err != nil {
		return nil, err
	}
	return n.queueOf(client), nil
}

func (n *nodes) queueOf(client *redis.Client) *queue {
	address := client.Options().Addr
	n.mu.RLock()
	q := n.queues[address]
	n.mu.RUnlock()
	if q == nil {
		n.mu.Lock()
		if q = n.queues[address]; q == nil {
			q = &queue{store: n.store}
			n.queues[address] = q
		}
		n.mu.Unlock()
	}
	if q.client.Load() != client {
		q.client.Store(client)
	}
	return q
}

// reload makes the cluster client look at the slots again.
func (n *nodes) reload() {
	if n.cluster != nil {
		n.cluster.ReloadState(context.Background())
	}
}

// each calls do for every server that takes writes, one after the other.
func (n *nodes) each(ctx context.Context, do func(client *redis.Client) error) error {
	if n.single != nil {
		return do(n.single)
	}
	var mu sync.Mutex
	return n.cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		return do(client)
	})
}

var errNoNode = errors.New("the node that a moving slot goes to is not known yet")

// ask sends a call to the node that a moving slot goes to: it has the key already.
func (s *Store) ask(c *call, redirect error) {
	to := redirect.Error()[strings.LastIndexByte(redirect.Error(), ' ')+1:]
	var target *redis.Client
	err := s.nodes.each(context.Background(), func(client *redis.Client) error {
		if client.Options().Addr == to {
			target = client
		}
		return nil
	})
	if err != nil || target == nil {
		s.nodes.reload()
		c.tries++
		if c.tries > maxTries {
			c.finish(nil, refusal(c.script.name, errNoNode))
			return
		}
		s.sendLater(c)
		return
	}
	pipe := target.Pipeline()
	pipe.Do(context.Background(), "asking")
	reply := pipe.Eval(context.Background(), c.script.text, c.keys, c.args...)
	var wait *redis.IntCmd
	if s.cfg.Replicas > 0 && c.script.confirmed {
		wait = s.addWait(pipe)
	}
	_, _ = pipe.Exec(context.Background())
	value, err := reply.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.handleError(c, s.nodes.queueOf(target), err)
		return
	}
	if err := confirmation(wait, s.cfg.Replicas); err != nil {
		c.finish(nil, unconfirmedError(c.script, err))
		return
	}
	c.finish(value, nil)
}
