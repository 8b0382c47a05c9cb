package pgkit

import "time"

// NeverStall makes statements that a test holds count as running for as long as the test holds
// them.
func (c *Combiner) NeverStall() { c.stallAfter = time.Hour }

// Idle reports whether no request is running.
func (c *Combiner) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limiter == limiter{most: c.limiter.most} && len(c.singles) == 0 && c.trials == 0
}

// Stalled returns how many statements have had no answer for a while.
func (c *Combiner) Stalled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limiter.stalled
}

// Impatient makes a writer break writes without an answer after so long. Call it before its first
// write.
func (w *Writer) Impatient(answer, left time.Duration) { w.answer, w.leftFor = answer, left }

// PingTimeout is how long an idle connection may take to answer.
const PingTimeout = pingTimeout

// Alone returns how many writes are sent alone, of how many callers.
func (c *Combiner) Alone() (underWay, callers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.singles), c.callers
}

// HashUUID is the hash by which a [Placement] finds a shard.
func HashUUID(key [16]byte) int32 { return hashUUID(key) }

// Set says that the shards of a table end with these hashes. They are on the nodes 1, 2, …
func (p *Placement) Set(lasts ...int32) {
	shards := make([]shard, len(lasts))
	for i, last := range lasts {
		shards[i] = shard{last, i + 1}
	}
	p.shards.Store(&shards)
}
