package inbox

import "time"

// A Delivery is what became of one delivery of a message. The zero Delivery is a failed one.
type Delivery struct {
	Result Result
	// Attempt is which attempt at handling the message this delivery made, from 1. It is 0 if it made none: fn did not
	// run, or what ended its run was not fn, such as a shutdown or the database.
	Attempt int
	// Pause is how long the broker should wait before it delivers the message again: a NakWithDelay of NATS, a queue
	// with a delay of RabbitMQ, or a sleep of a Kafka consumer before it reads on. It is 100 ms after the first attempt
	// and twice as long after each further one, a minute at most. Where no attempt was made it is about a second. It is
	// 0 where the message is acknowledged.
	Pause time.Duration
}

// Ack reports whether to acknowledge the message to the broker.
func (d Delivery) Ack() bool { return d.Result == Ran || d.Result == Duplicate || d.Result == Dead }

// String returns the name of the result, in lower case.
func (d Delivery) String() string { return d.Result.String() }

// A Result is how a delivery ended.
type Result uint8

const (
	// Failed means that the message was not handled, and that further attempts follow: let the
	// broker deliver the message again.
	Failed Result = iota
	// Ran means that this delivery handled the message.
	Ran
	// Duplicate means that the message had been handled before.
	Duplicate
	// Dead means that there is no further attempt. The message's dead letter was written, now or before.
	Dead
	// Busy means that another delivery of the message is being handled at this moment:
	// let the broker deliver it again later.
	Busy
)

// String returns the name of the result, in lower case.
func (r Result) String() string {
	switch r {
	case Ran:
		return "ran"
	case Duplicate:
		return "duplicate"
	case Dead:
		return "dead"
	case Busy:
		return "busy"
	default:
		return "failed"
	}
}

// The pauses before a message is delivered again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = time.Minute
	idlePause    = time.Second // where no attempt was made
)

// pauseAfter returns the pause after an attempt; 0: none was made.
func pauseAfter(attempt int) time.Duration {
	switch {
	case attempt == 0:
		return idlePause
	case attempt > 10: // twice as long each time would be longer
		return longestPause
	default:
		return min(firstPause<<(attempt-1), longestPause)
	}
}
