package pgkit

// perFlush is how many requests must at least wait for each statement under way before
// a further one begins. One that begins at once carries one request, and takes the
// server's time from those that carry many.
const perFlush = 4

// A traffic is what a combiner or a gatherer has under way, and its rule when more may
// be. Its user's lock guards it.
type traffic struct {
	most    int // statements at once, whether they have stalled or not
	slots   int // taken by statements that are about to be sent, or were sent a moment ago
	stalled int // taken by statements that have had no answer for a while
	carried int // requests in slots
}

// room reports whether so many waiting requests make a further statement worth while:
// perFlush for each that is under way, and no fewer than those carry on average. Where
// hundreds ask one after the other the first few that come back would else go off by
// themselves, and most statements carry eight. A stalled statement says nothing about how
// soon the next one is due, but it keeps its connection.
func (t *traffic) room(waiting int) bool {
	switch {
	case t.slots+t.stalled >= t.most:
		return false
	case t.slots == 0:
		return true
	default:
		return waiting >= max(perFlush*t.slots, t.carried/t.slots)
	}
}

// underWay counts all statements.
func (t *traffic) underWay() int { return t.slots + t.stalled }

// take takes a slot for a statement that carries a request so far.
func (t *traffic) take() {
	t.slots++
	t.carried++
}

// stall notes that a statement with so many requests has had no answer for a while.
func (t *traffic) stall(requests int) {
	t.slots--
	t.stalled++
	t.carried -= requests
}

// release gives up the slot of a statement with so many requests.
func (t *traffic) release(requests int, stalled bool) {
	if stalled {
		t.stalled--
		return
	}
	t.slots--
	t.carried -= requests
}
