package inbox

// A Delivery is the result of one delivery of a message.
type Delivery uint8

const (
	// Failed means that the attempt failed, and that further attempts follow: let the
	// broker deliver the message again.
	Failed Delivery = iota
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

// Ack reports whether to acknowledge the message to the broker.
func (d Delivery) Ack() bool { return d == Ran || d == Duplicate || d == Dead }

// String returns the name of the delivery, in lower case.
func (d Delivery) String() string {
	switch d {
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
