package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// loggedVariant is a pgbench of one connection that logs how long each of its
// transactions took. It begins anew for each turn: what it has logged is in its file
// when it has ended.
func loggedVariant(ctx context.Context, server *postgres, name, file string) (*variant, error) {
	program, err := server.program("pgbench")
	if err != nil {
		return nil, err
	}
	db, err := server.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	b := &pgbench{database: db, connections: 1}
	if b.folder, err = os.MkdirTemp("", "fanonce-bench-"); err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return &variant{
		name: name, server: server,
		turn: func(ctx context.Context, length time.Duration) (work, error) {
			return b.runLogged(ctx, program, file, length)
		},
		check: func(ctx context.Context, operations int) error { return db.holds(ctx, operations, completed) },
		close: func() error { return errors.Join(b.stop(), db.drop()) },
	}, nil
}

// runLogged lets pgbench work for whole seconds, at least one: it counts in no others. The
// turn took what its transactions did, so that connecting is in none of its figures.
func (p *pgbench) runLogged(ctx context.Context, program, file string, length time.Duration) (w work, err error) {
	prefix := filepath.Join(p.folder, "log")
	seconds := max(1, int(math.Ceil(length.Seconds())))
	cmd, err := p.command(program, file, "-T", strconv.Itoa(seconds), "-l", "--log-prefix", prefix)
	if err != nil {
		return w, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if p.child, err = launch(cmd); err != nil {
		return w, err
	}
	select {
	case <-p.child.done:
	case <-ctx.Done():
		return w, errors.Join(context.Cause(ctx), p.child.stop(syscall.SIGKILL))
	}
	if p.child.err != nil {
		return w, fmt.Errorf("bench: pgbench: %w: %s", p.child.err, strings.TrimSpace(said.String()))
	}
	name := prefix + "." + strconv.Itoa(p.child.process.Pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return w, err
	}
	if w.waits, err = parseLog(string(text)); err != nil {
		return w, err
	}
	w.operations = len(w.waits)
	for _, wait := range w.waits {
		w.took += wait
	}
	return w, os.Remove(name)
}

// parseLog reads how long each transaction took from a log of pgbench's: client, number,
// microseconds, and when it ended.
func parseLog(text string) (waits []time.Duration, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			return nil, fmt.Errorf("bench: pgbench's log: %q", line)
		}
		n, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("bench: pgbench's log: %w", err)
		}
		waits = append(waits, time.Duration(n)*time.Microsecond)
	}
	return waits, nil
}
