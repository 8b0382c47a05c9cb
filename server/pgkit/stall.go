package pgkit

import (
	"slices"
	"sync"
	"time"
)

// stallAfter is when a statement that has no answer stops counting as one under way.
// It waits for a lock, a standby or a network, and those behind it need not.
const stallAfter = 50 * time.Millisecond

// A lookout notices what stalls. One timer is for all that is under way, and goes off
// once where one after the other is quick: a timer for each would be a twentieth of
// what a lone write takes. Its methods want its user's lock to be held.
type lookout struct {
	lock    sync.Locker
	after   time.Duration
	watched []*watched // the oldest first
	alarm   *time.Timer
	set     bool // the alarm will go off
}

// A watched statement is one that a lookout has an eye on.
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

// remove reports whether w was still watched: it had not stalled.
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
