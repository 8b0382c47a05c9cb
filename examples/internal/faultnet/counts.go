package faultnet

import (
	"maps"
	"sync"
)

// Counts are the numbers of requests and faults at one edge.
type Counts struct {
	// Attempts are the requests that callers sent.
	Attempts int
	// Delivered are the requests that reached the callee, copies included.
	Delivered int
	// Unanswered are the delivered requests whose callee died before it answered.
	Unanswered int
	// Refused are the requests that met no callee: its process was dead.
	Refused int
	// TimedOut are the delivered messages that the callee answered after AnswerTimeout, or never.
	TimedOut int
	// Faults are the requests that the edge harmed, by kind.
	Faults map[Kind]int
}

// Injected returns the sum of the faults.
func (c Counts) Injected() int {
	sum := 0
	for _, n := range c.Faults {
		sum += n
	}
	return sum
}

type counter struct {
	mu sync.Mutex
	Counts
}

func (c *counter) add(count func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.Counts)
}

func (c *counter) snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.Counts
	counts.Faults = maps.Clone(c.Faults)
	return counts
}
