package main

import (
	"fmt"
	"time"
)

// An effort is how much is measured.
type effort struct {
	rounds, slices int           // of each variant
	slice          time.Duration // of a round
	log            int           // MB that each Postgres can use again
	limit          time.Duration // of all of it; 0: none

	connections []int // The numbers that pgbench is tried with, for its best.
	loops       int   // For the figures that are counted and not timed by slices.

	replayKeys int // completed ones in the table
	waiters    int
	bigRows    int
}

var (
	full = effort{
		rounds: 3, slices: 5, slice: time.Second, log: 4096,
		connections: []int{8, 16, 32, 64, 128, 256}, loops: 200_000,
		replayKeys: 500_000, waiters: 300, bigRows: 20_000_000,
	}
	// brief shows that everything works; its figures mean little.
	brief = effort{
		rounds: 1, slices: 2, slice: 300 * time.Millisecond, limit: 3 * time.Minute,
		connections: []int{32}, loops: 20_000,
		replayKeys: 50_000, waiters: 100, bigRows: 500_000,
	}
)

func (e effort) String() string {
	return fmt.Sprintf("Where variants are compared they take turns of %v, %d in each of %d rounds after one to warm up; ratios are of the same round.", e.slice, e.slices, e.rounds)
}
