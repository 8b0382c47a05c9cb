package main

import (
	"context"
	"errors"
	"os"
)

// A lab has the servers that benches share, each started when it is first asked
// for.
type lab struct {
	fast, slow         *postgres
	slowFolder         string
	memory, appendonly *redisServer
	log                int // MB of its log that a Postgres has when it starts
	profiler           profiler
}

func (l *lab) postgres(ctx context.Context) (_ *postgres, err error) {
	if l.fast == nil {
		l.fast, err = startPostgres(ctx, "", l.log)
	}
	return l.fast, err
}

// database makes one with the tables of the store. End it with drop.
func (l *lab) database(ctx context.Context) (*database, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	return on.database(ctx, migrateStore)
}

func (l *lab) slowPostgres(ctx context.Context) (*postgres, error) {
	fast, err := l.postgres(ctx)
	if err == nil && l.slow == nil {
		l.slow, l.slowFolder, err = startSlowPostgres(ctx, fast, l.log)
	}
	return l.slow, err
}

func (l *lab) redisMemory(ctx context.Context) (_ *redisServer, err error) {
	if l.memory == nil {
		l.memory, err = startRedis(ctx, redisMemory)
	}
	return l.memory, err
}

func (l *lab) redisAlways(ctx context.Context) (_ *redisServer, err error) {
	if l.appendonly == nil {
		l.appendonly, err = startRedis(ctx, redisAlways)
	}
	return l.appendonly, err
}

// name writes into a report what was started.
func (l *lab) name(on *machine) {
	if l.fast != nil {
		on.Postgres = l.fast.version
	}
	for _, r := range []*redisServer{l.memory, l.appendonly} {
		if r != nil {
			on.Redis = r.version
		}
	}
}

// missingCounts is why measures of statements were left out; nil if none was.
func (l *lab) missingCounts() error {
	for _, p := range []*postgres{l.fast, l.slow} {
		if p != nil && p.missed {
			return p.uncounted
		}
	}
	return nil
}

// close ends the servers and removes what they left. A second close does nothing.
func (l *lab) close() (err error) {
	for _, p := range []*postgres{l.slow, l.fast} {
		if p != nil {
			err = errors.Join(err, p.stop())
		}
	}
	for _, r := range []*redisServer{l.memory, l.appendonly} {
		if r != nil {
			err = errors.Join(err, r.stop())
		}
	}
	if l.slowFolder != "" {
		err = errors.Join(err, os.RemoveAll(l.slowFolder))
	}
	return err
}
