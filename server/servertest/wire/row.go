package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A row is one line of the contract. server/CONFORMANCE.md has the same lines.
type row struct {
	id        string // family/name
	situation string
	sent      string
	want      string
	source    string
	needs     []string // the flags without which the row is skipped
	check     func(*probe)
}

// A result is what became of a row.
type result struct {
	row    row
	status string // one of the three below
	detail string
	took   time.Duration
}

const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

// rows returns the contract.
func rows() []row {
	return slices.Concat(keyRows(), invalidKeyRows(), replayRows(), reuseRows(), progressRows(), callerRows(), firstSentRows(), undoRows(), problemRows(), limitRows())
}

// atOnce is how many rows run side by side. Each has keys of its own.
const atOnce = 8

// check runs the rows and returns their results in the same order.
func check(ctx context.Context, t *target, picked []row) []result {
	results := make([]result, len(picked))
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, r := range picked {
		places <- struct{}{}
		running.Go(func() {
			results[i] = t.try(ctx, r)
			<-places
		})
	}
	running.Wait()
	return results
}

// try runs one row.
func (t *target) try(ctx context.Context, r row) result {
	if missing := t.missing(r.needs); missing != "" {
		return result{row: r, status: skipped, detail: "needs " + missing}
	}
	begun := time.Now()
	p := &probe{target: t, ctx: ctx, key: newKey()}
	r.check(p)
	done := result{row: r, status: passed, took: time.Since(begun)}
	switch {
	case p.failure != "":
		done.status, done.detail = failed, p.failure
	case p.unclear != "":
		done.status, done.detail = skipped, p.unclear
	}
	return done
}

// missing returns the first of the flags that was not set; "" if all were.
func (t *target) missing(needs []string) string {
	given := map[string]bool{
		"-other-method": t.method != "", "-other-path": t.otherPath != "", "-refused": t.refused != "", "-failing": t.failing != "",
		"-slow": t.slow != "", "-undo": t.undo != "", "-opaque": t.opaque != "",
		"-auth": t.auth[0] != "", "-other-auth": t.otherAuth[0] != "", "-own-problems=false": !t.ownProblems,
	}
	for _, name := range needs {
		if !given[name] {
			return name
		}
	}
	return ""
}
