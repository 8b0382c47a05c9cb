package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

var contested = bench{
	name: "contested", title: "one winner for each key",
	conditions: "Two processes, half of whose callers go through all keys in one order, half in the other, and claim each; who wins completes. " + detector(),
	measure:    measureContested,
}

// detector says whether this program was built with the race detector.
func detector() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				return "With the race detector."
			}
		}
	}
	return "Without the race detector (go run -race . -run contested)."
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
	Errors []string
}

func measureContested(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	db, err := on.database(ctx, pgstore.Migrate)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	start := time.Now()
	results, err := contestKeys(contestOrders{db.url, e.contestants, e.contestedKeys})
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	wins, claims, failures := make([]int, e.contestedKeys), 0, 0
	for _, r := range results {
		for _, n := range r.Won {
			wins[n]++
		}
		claims += r.Claims
		failures += len(r.Errors)
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
	name := fmt.Sprintf("contested, 2 × %d callers, %d keys", e.contestants, e.contestedKeys)
	return []figure{{Name: name, Prototype: "met without -race", Measures: []measure{
		number("keys without exactly one winner", float64(odd), "", atMost(0)),
		number("deadlocks", float64(deadlocks), "", atMost(0)),
		number("errors", float64(failures), "", atMost(0)),
		number("claims", float64(claims), "", nil),
		number("rate", float64(claims)/took.Seconds(), perSecond, nil),
	}}}, nil
}

// contestKeys lets two processes have the same keys.
func contestKeys(orders contestOrders) (results [2]contestResult, err error) {
	var actors [2]*actor
	for i := range actors {
		a, err := hire("contestant", orders)
		if err != nil {
			return results, err
		}
		actors[i] = a
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
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return err
	}
	config.MaxConns = connections
	store, err := pgstore.Open(ctx, config, pgstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(contend(ctx, store, o))
}

// contend goes through the keys with all callers, in several walks at once, every
// other of them backwards.
func contend(ctx context.Context, s server.Store, o contestOrders) (r contestResult) {
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
