package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// check looks at the settings of every server that takes writes.
func (s *Store) check(ctx context.Context) error {
	return s.nodes.each(ctx, func(client *redis.Client) error {
		n := node{address: client.Options().Addr, client: client, cfg: s.cfg, cluster: s.nodes.cluster != nil}
		return n.check(ctx)
	})
}

func checkCluster(ctx context.Context, client *redis.Client) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("CLUSTER INFO: %w", err)
	}
	for _, want := range []struct{ field, value string }{{"cluster_state", "ok"}, {"cluster_slots_assigned", "16384"}} {
		if got := infoField(info, want.field); got != want.value {
			return &SettingError{Node: client.Options().Addr, Setting: want.field, Value: got, Want: want.value}
		}
	}
	return nil
}

// A node is a server whose settings are checked.
type node struct {
	address string
	client  *redis.Client
	cfg     Config
	cluster bool
}

func (n node) unsafe(setting, value, want string) error {
	return &SettingError{Node: n.address, Setting: setting, Value: value, Want: want}
}

func (n node) check(ctx context.Context) error {
	info, err := n.client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("redisstore: %s: INFO: %w", n.address, err)
	}
	if version := infoField(info, "redis_version"); !atLeast(version, 6, 2) {
		return n.unsafe("redis_version", version, "6.2 or later")
	}
	replication, err := n.client.Info(ctx, "replication").Result()
	if err != nil {
		return fmt.Errorf("redisstore: %s: INFO: %w", n.address, err)
	}
	if role := infoField(replication, "role"); role != "master" {
		return n.unsafe("role", role, "master: only a primary decides")
	}
	settings, err := n.settings(ctx, "maxmemory-policy", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "min-replicas-to-write")
	if err != nil {
		if n.cfg.Unverified {
			n.cfg.Logger.Warn("redisstore: settings not verified", "node", n.address, "error", err)
			return nil
		}
		return fmt.Errorf("%w: %s: set Unverified if you know that they are safe: %w", ErrUnreadableSetting, n.address, err)
	}
	connected := infoField(replication, "connected_slaves")
	return cmp.Or(n.checkEviction(settings), n.checkDisk(settings), n.checkReplicas(settings, connected))
}

// atLeast reports whether version is major.minor or later. Valkey tells the version of the Redis that it can stand in
// for.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	first, err1 := strconv.Atoi(parts[0])
	second, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (first > major || first == major && second >= minor)
}

// settings asks for one after the other: Redis 6.2 takes one name.
func (n node) settings(ctx context.Context, names ...string) (map[string]string, error) {
	found := make(map[string]string, len(names))
	for _, name := range names {
		got, err := n.client.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		value, ok := got[name]
		if !ok {
			return nil, errors.New("CONFIG GET " + name + " has no answer")
		}
		found[name] = value
	}
	return found, nil
}

func (n node) checkEviction(settings map[string]string) error {
	if policy := settings["maxmemory-policy"]; policy != "noeviction" {
		return n.unsafe("maxmemory-policy", policy, "noeviction: an evicted key is a second run")
	}
	return nil
}

func (n node) checkDisk(settings map[string]string) error {
	if n.cfg.AllowNonDurable {
		return nil
	}
	if v := settings["appendonly"]; v != "yes" {
		return n.unsafe("appendonly", v, "yes, or AllowNonDurable: a crash forgets what was acknowledged")
	}
	switch v := settings["appendfsync"]; v {
	case "always":
		if settings["no-appendfsync-on-rewrite"] == "yes" {
			n.warn("no-appendfsync-on-rewrite", "yes", "while the file is rewritten, a power loss can lose acknowledged writes")
		}
	case "everysec":
		n.warn("appendfsync", v, "a power loss can lose about the last second of acknowledged writes")
	default:
		return n.unsafe("appendfsync", v, "always or everysec, or AllowNonDurable: a power loss forgets what was acknowledged")
	}
	return nil
}

func (n node) checkReplicas(settings map[string]string, connected string) error {
	if n.cfg.AllowNonDurable || n.cfg.Replicas > 0 || !n.cluster && connected == "0" {
		return nil
	}
	const setting = "min-replicas-to-write"
	if settings[setting] == "0" {
		return n.unsafe(setting, "0", "Replicas in the Config, or 1 or more, or AllowNonDurable: a failover forgets what was acknowledged")
	}
	n.warn(setting, settings[setting], "a failover can lose writes that were acknowledged before a replica had them: set Replicas")
	return nil
}

func (n node) warn(setting, value, why string) {
	n.cfg.Logger.Warn("redisstore: "+why, "node", n.address, "setting", setting, "value", value)
}
