package pgkit

import "slices"

// singles are the writes of a combiner that go alone: those of a flush that was taken apart,
// and those whose row is known to be locked. They wait in a queue of their own, and take
// few connections. The combiner's lock guards them.
type singles struct {
	most     int // at once
	total    int // with flushes
	underWay int
	last     bool // the last to be sent was one of these, and no flush
	queue    []*entry
}

// enterAlone queues e, unless its caller is to send it at once. c.mu is held.
func (c *Combiner) enterAlone(e *entry) (lead bool) {
	if len(c.singles.queue) == 0 && c.roomAlone() {
		c.takeAlone(e)
		return true
	}
	e.waits()
	c.singles.queue = append(c.singles.queue, e)
	return false
}

func (c *Combiner) roomAlone() bool { return c.singles.underWay < c.singles.most && c.spare() }

func (c *Combiner) takeAlone(e *entry) {
	c.singles.underWay++
	c.singles.last = true
	e.stage = stageLeading
}

// callAlone lets those that have waited longest send their writes. c.mu is held.
func (c *Combiner) callAlone() {
	for len(c.singles.queue) > 0 && c.roomAlone() {
		e := c.singles.queue[0]
		c.singles.queue = slices.Delete(c.singles.queue, 0, 1)
		c.takeAlone(e)
		e.awake()
	}
}
