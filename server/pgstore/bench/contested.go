package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

var contested = bench{
	name: "contested", title: "one winner for each key",
	conditions: "Two processes, each of which goes through all keys four times at once, twice in one order and twice in the other: a quarter of its callers take the keys of one walk in turn. So each key is claimed eight times; who wins completes. Both are built with the race detector, whatever this program is.",
	measure:    measureContested,
}

// contestOrders are for one of the processes.
type contestOrders struct {
	URL     string
	Callers int
	Keys    int
}

// A contestResult is what one process saw.
type contestResult struct {
	Won    []int // numbers of keys, for each time that one was won
	Claims int
	Apart  int // flushes whose writes went again as single statements
	Errors []string
}

func measureContested(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	db, err := l.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	program, folder, err := raceProgram(ctx)
	if folder != "" {
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	}
	if err != nil {
		return nil, err
	}
	start := time.Now()
	results, err := contestKeys(ctx, program, contestOrders{db.url, e.contestants, e.contestedKeys})
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	wins, claims, failures, apart := make([]int, e.contestedKeys), 0, 0, 0
	for _, r := range results {
		for _, n := range r.Won {
			wins[n]++
		}
		claims += r.Claims
		failures += len(r.Errors)
		apart += r.Apart
	}
	odd := 0 // keys that were not won once
	for _, n := range wins {
		if n != 1 {
			odd++
		}
	}
	if err := db.holds(ctx, e.contestedKeys, completed+" and fence = 1", "select count(*) from idempotency"); err != nil {
		return nil, err
	}
	deadlocks, err := db.count(ctx, "select deadlocks from pg_stat_database where datname = current_database()")
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("contested with -race, 2 × %d callers, %d keys", e.contestants, e.contestedKeys)
	return []figure{{Name: name, Prototype: "met without -race", Measures: []measure{
		number("keys without exactly one winner", float64(odd), "", benchkit.AtMost(0)),
		number("deadlocks", float64(deadlocks), "", benchkit.AtMost(0)),
		number("errors", float64(failures), "", benchkit.AtMost(0)),
		number("claims", float64(claims), "", nil),
		number("flushes taken apart", float64(apart), "", nil),
		number("rate", float64(claims)/took.Seconds(), perSecond, nil),
	}}}, nil
}

// contestKeys lets two processes have the same keys.
func contestKeys(ctx context.Context, program string, orders contestOrders) (results [2]contestResult, err error) {
	var actors [2]*actor
	for i := range actors {
		a, err := hireFrom(program, "contestant", orders)
		if err != nil {
			return results, err
		}
		actors[i] = a
		stop := context.AfterFunc(ctx, func() { _ = a.child.process.Kill() }) // its result is not read then
		defer stop()
		defer func() { err = errors.Join(err, a.dismiss()) }()
	}
	var running sync.WaitGroup
	var errs [2]error
	for i, a := range actors {
		running.Go(func() { errs[i] = a.act(&results[i]) })
	}
	running.Wait()
	return results, errors.Join(errs[:]...)
}

// walks is how many times a process goes through the keys at the same time: so many
// of its callers are at about one key.
const walks = 4

// playContestant is one of the two processes.
func playContestant(ctx context.Context, orders json.RawMessage, in *bufio.Reader, out io.Writer) error {
	var o contestOrders
	if err := json.Unmarshal(orders, &o); err != nil {
		return err
	}
	s, failed, err := openContestant(ctx, o.URL)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	r := contend(ctx, s, o)
	r.Apart = int(failed.lockTimeouts.Load() + failed.collisions.Load())
	return json.NewEncoder(out).Encode(r)
}

func openContestant(ctx context.Context, url string) (*pgstore.Store, *failedFlushes, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = connections
	failed := new(failedFlushes)
	config.ConnConfig.Tracer = failed
	s, err := pgstore.Open(ctx, config, pgstore.Config{})
	return s, failed, err
}

// failedFlushes counts what was sent together and waited too long for a lock (55P03), or
// claimed a key that somebody else claimed meanwhile (23505).
type failedFlushes struct{ lockTimeouts, collisions atomic.Int64 }

// TraceQueryStart implements [pgx.QueryTracer].
func (f *failedFlushes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (f *failedFlushes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (f *failedFlushes) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (f *failedFlushes) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (f *failedFlushes) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	var pgErr *pgconn.PgError
	if !errors.As(data.Err, &pgErr) {
		return
	}
	switch pgErr.Code {
	case "55P03":
		f.lockTimeouts.Add(1)
	case "23505":
		f.collisions.Add(1)
	}
}

// contend goes through the keys with all callers, in several walks at once, every
// other of them backwards.
func contend(ctx context.Context, s store.Store, o contestOrders) (r contestResult) {
	var mu sync.Mutex
	var running sync.WaitGroup
	var next [walks]atomic.Int64
	for i := range o.Callers {
		walk := i % walks
		running.Go(func() {
			for {
				n := int(next[walk].Add(1)) - 1
				if n >= o.Keys {
					return
				}
				if walk%2 == 1 {
					n = o.Keys - 1 - n
				}
				err := complete(ctx, s, bulkKey(n))
				mu.Lock()
				r.Claims++
				switch {
				case err == nil:
					r.Won = append(r.Won, n)
				case !errors.Is(err, errNotFirst):
					r.Errors = append(r.Errors, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return r
}
