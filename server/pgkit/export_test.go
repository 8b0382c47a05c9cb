package pgkit

import "time"

// NeverStall makes statements that a test holds count as under way for as long as
// it does.
func (g *Gatherer[Q, A]) NeverStall() { g.stalls.after = time.Hour }

// NeverStall is the same of a combiner.
func (c *Combiner) NeverStall() { c.stalls.after = time.Hour }

// Idle reports whether nothing is under way, to the last request.
func (g *Gatherer[Q, A]) Idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.traffic == traffic{most: g.traffic.most}
}

// Idle is the same of a combiner.
func (c *Combiner) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traffic == traffic{most: c.traffic.most} && c.singles.underWay == 0 && c.trials == 0
}

// Stalled returns how many statements have had no answer for a while.
func (g *Gatherer[Q, A]) Stalled() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.traffic.stalled
}

// Stalled is the same of a combiner.
func (c *Combiner) Stalled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.traffic.stalled
}

// Impatient makes a writer break what has no answer after so long. Call it before its first write.
func (w *Writer) Impatient(answer, left time.Duration) { w.answer, w.leftFor = answer, left }

// PingTimeout is how long an idle connection may take to answer.
const PingTimeout = pingTimeout

// Singles returns how many writes are sent alone, and how many wait for that.
func (c *Combiner) Singles() (underWay, queued int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.singles.underWay, len(c.singles.queue)
}
