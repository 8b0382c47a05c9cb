package pgkit

// perFlush is how many requests must at least wait for each running statement before a further
// statement begins. A statement that begins at once carries one request, and takes the server's
// time from statements that carry many.
const perFlush = 4

// A limiter counts the flushes of a combiner that have no answer yet, and decides when another one begins. Its user's lock guards it.
type limiter struct {
	most    int // Statements at once, whether they have stalled or not.
	slots   int // Taken by statements that are about to be sent, or were sent a moment ago.
	stalled int // Taken by statements that have had no answer for a while.
	carried int // Requests in slots.
}

// room reports whether the waiting requests are enough for a further statement: perFlush for each
// running statement, and no fewer than the running statements carry on average. Without the average
// the first few of hundreds of callers that come back would go off by themselves, and most
// statements would carry eight. A stalled statement does not delay the next statement, but it keeps
// its connection.
func (t *limiter) room(waiting int) bool {
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
func (t *limiter) underWay() int { return t.slots + t.stalled }

// take takes a slot for a statement that carries a request so far.
func (t *limiter) take() {
	t.slots++
	t.carried++
}

// stall notes that a statement with so many requests has had no answer for a while.
func (t *limiter) stall(requests int) {
	t.slots--
	t.stalled++
	t.carried -= requests
}

// release gives up the slot of a statement with so many requests.
func (t *limiter) release(requests int, stalled bool) {
	if stalled {
		t.stalled--
		return
	}
	t.slots--
	t.carried -= requests
}
