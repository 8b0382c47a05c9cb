package pgkit

import (
	"slices"
	"sync"
	"time"
)

// stallAfter is when a statement without an answer stops counting as running. It waits for a lock,
// a standby or a network, and the statements behind it need not wait.
const stallAfter = 50 * time.Millisecond

// A lookout notices statements that stall. All running statements share one timer, which goes off
// once for many quick statements: a timer for each would take a twentieth of the time of a lone
// write. Hold the user's lock when you call its methods.
type lookout struct {
	lock    sync.Locker
	after   time.Duration
	watched []*watched // the oldest first
	alarm   *time.Timer
	set     bool // the alarm will go off
}

// A watched is a statement that a lookout watches.
type watched struct {
	began   time.Time
	stalled func() // called at most once, with the lock held
}

func (l *lookout) add(stalled func()) *watched {
	w := &watched{time.Now(), stalled}
	l.watched = append(l.watched, w)
	l.setAlarm()
	return w
}

// remove reports whether w was still watched: then it did not stall.
func (l *lookout) remove(w *watched) bool {
	i := slices.Index(l.watched, w)
	if i < 0 {
		return false
	}
	l.watched = slices.Delete(l.watched, i, i+1)
	return true
}

// setAlarm sets the alarm for the oldest.
func (l *lookout) setAlarm() {
	if l.set || len(l.watched) == 0 {
		return
	}
	l.set = true
	left := l.after - time.Since(l.watched[0].began)
	if l.alarm == nil {
		l.alarm = time.AfterFunc(left, l.look)
	} else {
		l.alarm.Reset(left)
	}
}

// look is the alarm's.
func (l *lookout) look() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.set = false
	for len(l.watched) > 0 && time.Since(l.watched[0].began) >= l.after {
		w := l.watched[0]
		l.watched = slices.Delete(l.watched, 0, 1)
		w.stalled()
	}
	l.setAlarm()
}

// end is for users that have one.
func (l *lookout) end() {
	if l.alarm != nil {
		l.alarm.Stop()
	}
}
