package pgkit

// perFlush is how many requests must at least wait for each statement under way before
// a further one begins. One that begins at once carries one request, and takes the
// server's time from those that carry many.
const perFlush = 4

// A traffic is what a combiner or a gatherer has under way, and its rule when more may
// be. Its user's lock guards it.
type traffic struct {
	most    int // statements at once
	slots   int // taken: by statements under way or about to be, but for stalled ones
	carried int // requests in them
}

// room reports whether so many waiting requests make a further statement worth while:
// perFlush for each that is under way, and no fewer than those carry on average. Where
// hundreds ask one after the other the first few that come back would else go off by
// themselves, and most statements carry eight.
func (t *traffic) room(waiting int) bool {
	switch {
	case t.slots == 0:
		return true
	case t.slots >= t.most:
		return false
	default:
		return waiting >= max(perFlush*t.slots, t.carried/t.slots)
	}
}

// take takes a slot for a statement that carries a request so far.
func (t *traffic) take() {
	t.slots++
	t.carried++
}

// release gives up the slot of a statement with so many requests.
func (t *traffic) release(requests int) {
	t.slots--
	t.carried -= requests
}
