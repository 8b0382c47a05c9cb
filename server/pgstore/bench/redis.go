package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// errNoRedis: this machine has no Redis.
var errNoRedis = errors.New("bench: no Redis: install redis-server, so that it is on PATH")

// A redisServer is a Redis of ours, on a unix socket.
type redisServer struct {
	child   *child
	folder  string
	version string
}

// The ways to start one: what it acknowledged is in memory only, or on the disk.
var (
	redisMemory = []string{"--appendonly", "no"}
	redisAlways = []string{"--appendonly", "yes", "--appendfsync", "always"}
)

func startRedis(ctx context.Context, options []string) (_ *redisServer, err error) {
	file, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	r := &redisServer{}
	if r.folder, err = os.MkdirTemp("", "fanonce-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	args := append([]string{"--port", "0", "--unixsocket", r.socket(), "--dir", r.folder, "--save", ""}, options...)
	cmd := exec.Command(file, args...) //nolint:noctx // it is ended by stop
	if r.child, err = launch(cmd); err != nil {
		return nil, err
	}
	client := r.client(1)
	err = until(ctx, r.child, "start Redis", func() (bool, error) { return client.Ping(ctx).Err() == nil, nil })
	if err == nil {
		var server map[string]map[string]string
		server, err = client.InfoMap(ctx, "server").Result()
		r.version = server["Server"]["redis_version"]
	}
	return r, errors.Join(err, client.Close())
}

func (r *redisServer) socket() string { return filepath.Join(r.folder, "socket") }

func (r *redisServer) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket(), PoolSize: connections, DisableIdentity: true})
}

func (r *redisServer) stop() error {
	var err error
	if r.child != nil {
		err = r.child.stop(syscall.SIGKILL)
	}
	return errors.Join(err, os.RemoveAll(r.folder))
}
