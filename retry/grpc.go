package retry

import "time"

// A GRPCStatus is how a gRPC call ended, as far as it matters here: for the classify
// of a [Do] over gRPC. Where the status carries a code of package wire, [CodeVerdict]
// decides instead.
type GRPCStatus struct {
	Code string // its name, as "UNAVAILABLE"
	// NotSent says that the transport shows that nothing was sent: grpc-go's
	// stats handler saw no OutHeader.
	NotSent bool
	// RetryInfo is the delay of a google.rpc.RetryInfo among the details; 0: there
	// is none.
	RetryInfo time.Duration
	// Pushback is grpc-retry-pushback-ms of the trailer (gRFC A6); nil: there is
	// none. A negative one, or one that is no number, forbids retries.
	Pushback *time.Duration
}

// Verdict returns the row of the status's code, [GRPCVerdict], and what else the
// status says: that nothing was sent, how long to wait, and that there is something
// to wait for, which is what makes a RESOURCE_EXHAUSTED worth another attempt.
func (s GRPCStatus) Verdict() Verdict {
	v := GRPCVerdict(s.Code)
	if s.NotSent && s.Code == "UNAVAILABLE" {
		v.Outcome, v.Evidence = NotSent, "unavailable before anything was sent"
	}
	v.RetryAfter = max(s.RetryInfo, 0)
	if s.Pushback != nil {
		v.Vetoed = *s.Pushback < 0
		v.RetryAfter = max(*s.Pushback, 0)
	}
	if s.Code == "RESOURCE_EXHAUSTED" && (s.RetryInfo > 0 || s.Pushback != nil) {
		v.Action = Retry
	}
	return v
}
