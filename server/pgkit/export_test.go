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
	return c.traffic == traffic{most: c.traffic.most}
}
