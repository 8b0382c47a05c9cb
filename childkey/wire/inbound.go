package wire

import (
	"context"
	"time"
)

// Inbound is what a guarded handler's request says to the calls made on its
// behalf. The callee puts it into the handler's ctx; the caller's side reads
// it when it sends child calls.
type Inbound struct {
	// FirstSent is the time, by the store's clock, at which this request's key
	// was first claimed: the same for every run. Child calls send it as
	// [HeaderFirstSent]. Zero means unknown: they send none.
	FirstSent time.Time
	// Rerun says that an earlier run of this request may have made calls already:
	// it died or failed, and this one begins again. Child calls then start as
	// unknown: that they are refused now does not prove that they never ran.
	Rerun bool
	// Attempt is the caller's attempt number, from 1; 0 means it said none.
	Attempt int
	// Allowance is how many retries the caller allows below this request;
	// negative means it said none.
	Allowance int
	// Deadline is when the caller stops waiting for this attempt, by this
	// process's clock; zero means it said none. It bounds child calls, and
	// never a claimed run.
	Deadline time.Time
}

type inboundKey struct{}

// NewContext returns ctx carrying in.
func NewContext(ctx context.Context, in Inbound) context.Context {
	return context.WithValue(ctx, inboundKey{}, in)
}

// FromContext returns the Inbound that ctx carries. Without one it returns
// false and an Inbound that says nothing (Allowance -1).
func FromContext(ctx context.Context) (Inbound, bool) {
	in, ok := ctx.Value(inboundKey{}).(Inbound)
	if !ok {
		return Inbound{Allowance: -1}, false
	}
	return in, true
}
