package pgkit

import (
	"slices"
	"time"
)

// stallAfter is when a flush without an answer stops counting as running. It waits for a lock,
// a standby or a network, and the flushes behind it need not wait.
const stallAfter = 50 * time.Millisecond

// stalls notice flushes that stall. All running flushes share one timer, which goes off
// once for many quick flushes: a timer for each would take a twentieth of the time of a lone
// write. The combiner's lock guards them.
type stalls struct {
	after   time.Duration
	flushes []*flush // that are watched, the oldest first
	alarm   *time.Timer
	set     bool // the alarm will go off
}

// watch has stall called once f has had no answer for a while. c.mu is held.
func (c *Combiner) watch(f *flush) {
	f.began = time.Now()
	c.stalls.flushes = append(c.stalls.flushes, f)
	c.setAlarm()
}

// unwatch ends watch. c.mu is held.
func (c *Combiner) unwatch(f *flush) {
	if i := slices.Index(c.stalls.flushes, f); i >= 0 {
		c.stalls.flushes = slices.Delete(c.stalls.flushes, i, i+1)
	}
}

// setAlarm sets the alarm for the oldest flush. c.mu is held.
func (c *Combiner) setAlarm() {
	s := &c.stalls
	if s.set || len(s.flushes) == 0 {
		return
	}
	s.set = true
	left := s.after - time.Since(s.flushes[0].began)
	if s.alarm == nil {
		s.alarm = time.AfterFunc(left, c.lookForStalls)
	} else {
		s.alarm.Reset(left)
	}
}

// lookForStalls is the alarm's.
func (c *Combiner) lookForStalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.stalls
	s.set = false
	for len(s.flushes) > 0 && time.Since(s.flushes[0].began) >= s.after {
		f := s.flushes[0]
		s.flushes = slices.Delete(s.flushes, 0, 1)
		c.stall(f)
	}
	c.setAlarm()
}

func (s *stalls) end() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
}
