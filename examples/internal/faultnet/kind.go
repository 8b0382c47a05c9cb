package faultnet

// A Kind is one way for a request to go wrong.
type Kind string

// The fates of a request at an edge. After the first, the callee has done the work; that is
// what makes a caller's retry dangerous.
const (
	DropRequest  Kind = "drop_request"  // the connection is cut before the callee sees anything
	DropResponse Kind = "drop_response" // the callee answers, and the connection is cut
	Truncate     Kind = "truncate"      // half of the answer's body arrives
	BadGateway   Kind = "bad_gateway"   // a 502 in place of the answer, or of the request
	Duplicate    Kind = "duplicate"     // the callee gets two copies, at once or one late
	Delay        Kind = "delay"         // the request or the answer takes its time
)

// Kinds returns every kind, in the order of reports.
func Kinds() []Kind {
	return []Kind{DropRequest, DropResponse, Truncate, BadGateway, Duplicate, Delay}
}

// String returns the kind as people read it.
func (k Kind) String() string {
	switch k {
	case DropRequest:
		return "request dropped"
	case DropResponse:
		return "answer dropped"
	case Truncate:
		return "answer truncated"
	case BadGateway:
		return "bad gateway"
	case Duplicate:
		return "duplicated"
	case Delay:
		return "delayed"
	default:
		return string(k)
	}
}
