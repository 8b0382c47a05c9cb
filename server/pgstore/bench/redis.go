package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// errNoRedis: this machine lacks Redis, and the bench cannot install it.
var errNoRedis = errors.New("bench: no Redis to be had: install redis-server, so that it is on PATH")

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
	file, err := findRedis(ctx)
	if err != nil {
		return nil, err
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

// findRedis returns the file of Redis. Where it is missing, root has Debian's
// package installed.
func findRedis(ctx context.Context) (string, error) {
	if file, err := exec.LookPath("redis-server"); err == nil {
		return file, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", errNoRedis
	}
	if err := install(ctx, apt, "redis-server"); err != nil {
		return "", fmt.Errorf("%w: %w", errNoRedis, err)
	}
	return exec.LookPath("redis-server")
}

// policyFile keeps packages of Debian from starting what they install.
const policyFile = "/usr/sbin/policy-rc.d"

func install(ctx context.Context, apt, name string) (err error) {
	if _, missing := os.Stat(policyFile); missing != nil {
		if err := os.WriteFile(policyFile, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil { //nolint:gosec // dpkg runs it
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(policyFile)) }()
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", name}} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, strings.TrimSpace(string(said)))
		}
	}
	return nil
}
