package pgkit

import (
	"slices"
	"time"
)

// stallAfter is when a flush that has no answer stops counting as one under way. It
// waits for a lock, a standby or a network, and those behind it need not.
const stallAfter = 50 * time.Millisecond

// watch sees to it that f loses its slot if it stalls. One alarm is for all flushes,
// and goes off once where one after the other is quick: a timer for each would be a
// twentieth of what a lone write takes. c.mu is held.
func (c *Combiner) watch(f *flush) {
	f.began = time.Now()
	c.running = append(c.running, f)
	if !c.alarmed {
		c.alarmIn(stallAfter)
	}
}

// unwatch: f has ended, or was never watched. c.mu is held.
func (c *Combiner) unwatch(f *flush) {
	if i := slices.Index(c.running, f); i >= 0 {
		c.running = slices.Delete(c.running, i, i+1)
	}
}

func (c *Combiner) alarmIn(d time.Duration) {
	c.alarmed = true
	if c.alarm == nil {
		c.alarm = time.AfterFunc(d, c.lookForStalled)
	} else {
		c.alarm.Reset(d)
	}
}

// unalarm is for the end. c.mu is held.
func (c *Combiner) unalarm() {
	if c.alarm != nil {
		c.alarm.Stop()
	}
}

// lookForStalled takes their slots from flushes that have stalled, and sets the alarm
// for the next that could.
func (c *Combiner) lookForStalled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarmed = false
	var next time.Duration
	for _, f := range c.running {
		if !f.slot {
			continue
		}
		left := stallAfter - time.Since(f.began)
		if left <= 0 {
			c.giveUpSlot(f)
			continue
		}
		if next == 0 || left < next {
			next = left
		}
	}
	if next > 0 {
		c.alarmIn(next)
	}
}

// giveUpSlot lets others go on: f has ended, or is stalled. c.mu is held.
func (c *Combiner) giveUpSlot(f *flush) {
	if !f.slot {
		return
	}
	f.slot = false
	c.slots--
	c.callNext()
}
