package main

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
)

var cached = bench{
	name: "cache", title: "replay from the cache in the process",
	conditions: "One caller of server.Do with one key, the key's digest, the fingerprint and the decoding of the answer included; the mean of a run.",
	measure:    measureCache,
}

func measureCache(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	db, err := l.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	counted, err := db.toCounted()
	if err != nil {
		return nil, err
	}
	g, err := openGuard(ctx, counted, guardOptions{guard: server.Config{CacheBytes: 1 << 20}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	key := newKey()
	if _, err := g.repeat(ctx, 2, key); err != nil { // the first runs, the second is cached
		return nil, err
	}
	before, err := db.sent(ctx)
	if err != nil {
		return nil, err
	}
	var each, cpu []float64
	for range e.rounds {
		began, err := selfTime()
		if err != nil {
			return nil, err
		}
		took, err := g.repeat(ctx, e.loops, key)
		if err != nil {
			return nil, err
		}
		ended, err := selfTime()
		if err != nil {
			return nil, err
		}
		each = append(each, inMicroseconds(took)/float64(e.loops))
		cpu = append(cpu, inMicroseconds(ended-began)/float64(e.loops))
	}
	after, err := db.sent(ctx)
	if err != nil {
		return nil, err
	}
	costs, err := l.profiler.spent(ctx, e, "cache", func() (*variant, error) { return g.replaying(e.loops, key), nil })
	if err != nil {
		return nil, err
	}
	measures := []measure{spreadOf(each).Measure("replay", microseconds, benchkit.AtMost(1)), spreadOf(cpu).Measure("CPU", microseconds, nil)}
	return []figure{{Name: "cache", Prototype: "0.4 µs (the cache alone)", Measures: append(
		measures, db.statements("statements", []float64{after - before}, benchkit.AtMost(0))...,
	)}, costs}, nil
}

// replaying is a variant that looks at the clock once in so many calls.
func (g *guarded) replaying(loops int, key childkey.Key) *variant {
	turn := func(ctx context.Context, length time.Duration) (w work, err error) {
		for ; err == nil && w.took < length; w.operations += loops {
			var took time.Duration
			took, err = g.repeat(ctx, loops, key)
			w.took += took
		}
		return w, err
	}
	return &variant{name: ours, turn: turn, close: func() error { return nil }}
}

// repeat calls so often with one key, and returns how long that took.
func (g *guarded) repeat(ctx context.Context, n int, key childkey.Key) (time.Duration, error) {
	start := time.Now()
	for range n {
		out, _, err := server.Do(ctx, g.guard, task(server.Keyed), key, 1, func(context.Context, int) (string, error) { return string(answer), nil })
		if err != nil {
			return 0, err
		}
		if len(out) != len(answer) {
			return 0, errNoReplay
		}
	}
	return time.Since(start), nil
}
