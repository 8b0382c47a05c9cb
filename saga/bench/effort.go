package main

import "time"

// effort is the amount of work of the benches.
type effort struct {
	costRounds int // of B1, for each contender
	costRuns   int // in a round
	rounds     int // of B2, for each number of callers
	turn       time.Duration
	callers    []int
}

var (
	full = effort{
		costRounds: 9, costRuns: 100,
		rounds: 9, turn: time.Second, callers: []int{1, 32, 256},
	}
	// brief shows that everything works; its figures mean little.
	brief = effort{
		costRounds: 3, costRuns: 10,
		rounds: 1, turn: 200 * time.Millisecond, callers: []int{1, 32},
	}
)
