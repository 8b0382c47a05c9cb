package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// A Cluster is a Redis Cluster of ours.
type Cluster struct {
	Nodes []*Server // the first half are primaries at the start, each with the replica that is as far into the second half

	nodeTimeout time.Duration
}

// StartCluster starts a cluster of three primaries with a replica each. A primary that does not answer for a second is
// replaced. options are as in [Start].
func StartCluster(tb testing.TB, options ...string) *Cluster {
	tb.Helper()
	c, err := newCluster(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.stop(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// newCluster starts the nodes and joins them. The caller calls stop.
func newCluster(options ...string) (*Cluster, error) {
	const primaries = 3
	c := &Cluster{nodeTimeout: time.Second}
	options = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", fmt.Sprint(c.nodeTimeout.Milliseconds()),
	}, options...)
	for range 2 * primaries {
		s, err := New(options...)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.Nodes = append(c.Nodes, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	if err := c.join(ctx, primaries); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// join makes the nodes a cluster by hand: redis-cli is not everywhere.
func (c *Cluster) join(ctx context.Context, primaries int) error {
	clients := make([]*redis.Client, len(c.Nodes))
	for i, node := range c.Nodes {
		clients[i] = node.Client()
		defer clients[i].Close()
		if err := clients[i].Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	for i := range primaries {
		if err := clients[i].ClusterAddSlotsRange(ctx, i*slots/primaries, (i+1)*slots/primaries-1).Err(); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	for i := 1; i < len(c.Nodes); i++ {
		if err := clients[0].ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(c.Nodes[i].port)).Err(); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	for i := primaries; i < len(c.Nodes); i++ {
		id, err := clients[i-primaries].ClusterMyID(ctx).Result()
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		if err := until(ctx, "the nodes know each other", func() bool { return clients[i].ClusterReplicate(ctx, id).Err() == nil }); err != nil {
			return err
		}
	}
	return c.waitReady(ctx)
}

func until(ctx context.Context, what string, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: waiting until %s: %w", what, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// waitReady waits until every node that runs says that the cluster is whole, and every replica follows its primary. A
// replica that never did so is never promoted.
func (c *Cluster) waitReady(ctx context.Context) error {
	for _, node := range c.Nodes {
		select {
		case <-node.done:
			continue
		default:
		}
		client := node.Client()
		err := until(ctx, node.Addr()+" is ready", func() bool {
			info, err := client.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes))) {
				return false
			}
			replication, err := client.Info(ctx, "replication").Result()
			return err == nil && (strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
		})
		_ = client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Addrs returns host:port of each node.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// IsPrimary reports whether a node says that it is a primary.
func (s *Server) IsPrimary(ctx context.Context) bool {
	client := s.Client()
	defer client.Close()
	info, err := client.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(info, "role:master")
}

// stop ends every node, and deletes their folders.
func (c *Cluster) stop() error {
	var errs []error
	for _, node := range c.Nodes {
		_ = node.Kill() // nobody needs the files, and SIGTERM would take a second for each
		errs = append(errs, node.Stop())
	}
	return errors.Join(errs...)
}
