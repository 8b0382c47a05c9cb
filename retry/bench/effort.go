package main

import "time"

// effort is how much the benches do.
type effort struct {
	rounds        int           // of B1 and B2
	turn          time.Duration // of one operation in a round; long enough to pay for its garbage
	curveCalls    int           // for each failure rate of B3
	before        time.Duration // B3's step outage
	outage        time.Duration // itself
	after         time.Duration // it
	leakCalls     int           // of B5, each with two failures and a success
	chaosCalls    int           // of B6
	deadlineCalls int           // of B9

	restarts       []time.Duration // of B10
	restartCallers int             // that wait at their end
}

var (
	full = effort{
		rounds: 400, turn: 5 * time.Millisecond, curveCalls: 20000,
		before: time.Second, outage: 3 * time.Second, after: 4 * time.Second,
		leakCalls: 100, chaosCalls: 20000, deadlineCalls: 20,
		restarts: []time.Duration{300 * time.Millisecond, 3 * time.Second, 10 * time.Second}, restartCallers: 1000,
	}
	// brief shows that everything works; its figures mean little.
	brief = effort{
		rounds: 5, turn: 2 * time.Millisecond, curveCalls: 1000,
		before: 500 * time.Millisecond, outage: 500 * time.Millisecond, after: time.Second,
		leakCalls: 20, chaosCalls: 1000, deadlineCalls: 2,
		restarts: []time.Duration{100 * time.Millisecond}, restartCallers: 100,
	}
)
