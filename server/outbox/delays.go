package outbox

import (
	"math/rand/v2"
	"time"
)

const firstBackoff = 100 * time.Millisecond

// maxDelayed bounds how many aggregates and single messages are put off at once. With more of them the broker is down:
// then the relay asks for the oldest messages again and again.
const maxDelayed = 1000

// delays has what the broker did not take lately. A whole aggregate is put off, so that its order holds.
type delays struct {
	longest    time.Duration
	aggregates map[string]delay
	messages   map[int64]delay // without an aggregate, by position
}

type delay struct {
	pause time.Duration
	until time.Time
}

func newDelays(longest time.Duration) *delays {
	return &delays{longest: longest, aggregates: make(map[string]delay), messages: make(map[int64]delay)}
}

// failed puts m off.
func (d *delays) failed(m *Message, now time.Time) {
	if m.Aggregate == "" {
		put(d.messages, m.position, d.longest, now)
	} else {
		put(d.aggregates, m.Aggregate, d.longest, now)
	}
}

// published forgets the earlier failures of m.
func (d *delays) published(m *Message) {
	if m.Aggregate == "" {
		delete(d.messages, m.position)
	} else {
		delete(d.aggregates, m.Aggregate)
	}
}

func put[K comparable](delayed map[K]delay, key K, longest time.Duration, now time.Time) {
	was, again := delayed[key]
	if !again && len(delayed) >= maxDelayed {
		return
	}
	pause := min(max(2*was.pause, firstBackoff), longest)
	delayed[key] = delay{pause, now.Add(pause/2 + rand.N(pause/2))}
}

// putOff returns what is not to be read now.
func (d *delays) putOff(now time.Time) (aggregates []string, positions []int64) {
	return waiting(d.aggregates, now), waiting(d.messages, now)
}

// waiting returns the keys whose time has not come. It forgets a key whose time came long ago: another relay has
// published it, or its lane is gone.
func waiting[K comparable](delayed map[K]delay, now time.Time) []K {
	keys := []K{}
	for key, d := range delayed {
		switch {
		case now.Before(d.until):
			keys = append(keys, key)
		case now.Sub(d.until) > 10*d.pause+time.Minute:
			delete(delayed, key)
		}
	}
	return keys
}
