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
	// negative means it said none. All calls under one ctx draw on it
	// together; what [FromContext] returns is what is left. See [Inbound.Retries].
	Allowance int
	// Deadline is when the caller stops waiting for this attempt, by this
	// process's clock; zero means it said none. It bounds child calls, and
	// never a claimed run.
	Deadline time.Time

	retries *Retries // nil: none was said, or Allowance alone
	read    int      // Allowance as it was read from a ctx
}

// Retries returns the count that calls under the ctx draw on which in is from; nil
// if the caller allowed no number.
func (in Inbound) Retries() *Retries { return in.retries }

// Part returns in with a part of its retries ([Retries.Part]), at most n; in itself if
// the caller allowed no number.
func (in Inbound) Part(n int) Inbound {
	if in.retries != nil {
		in.retries = in.retries.Part(n)
		in.Allowance = in.retries.Left()
		in.read = in.Allowance
	}
	return in
}

type inboundKey struct{}

// NewContext returns ctx carrying in. If in comes from [FromContext], and its
// Allowance was not changed, both draw on the same [Retries]; else these are new.
func NewContext(ctx context.Context, in Inbound) context.Context {
	switch {
	case in.Allowance < 0:
		in.retries = nil
	case in.retries == nil || in.Allowance != in.read:
		in.retries = NewRetries(in.Allowance)
	}
	return context.WithValue(ctx, inboundKey{}, in)
}

// FromContext returns the Inbound that ctx carries. Without one it returns
// false and an Inbound that says nothing (Allowance -1).
func FromContext(ctx context.Context) (Inbound, bool) {
	in, ok := ctx.Value(inboundKey{}).(Inbound)
	if !ok {
		return Inbound{Allowance: -1}, false
	}
	if in.retries != nil {
		in.Allowance = in.retries.Left()
		in.read = in.Allowance
	}
	return in, true
}
