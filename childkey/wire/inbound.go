package wire

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// MaxRetryCount is the largest number that [HeaderRetryAttempt] and
// [HeaderRetryAllowance] may hold.
const MaxRetryCount = 16

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
	// Parent is the record on whose behalf the calls under this ctx are made: the ID
	// of a guarded request's record, or of a saga. Child calls send it as
	// [HeaderParent]. A store keeps it for people who look for the calls of one
	// request. It decides nothing. Zero means none.
	Parent [16]byte
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

	// Confirm makes the claim durable; nil means that it is. It is for a callee that may begin
	// a run before its claim is durable. A call that left such a run would tell the next hop
	// of a claim that a crash can undo. Each client calls [FromContext] before a call leaves.
	// The first FromContext of a ctx calls Confirm, and all of them return, without Confirm,
	// when it has returned. If it returns false, they return Rerun and no FirstSent: the claim
	// may be lost, and an earlier run may have made the same call. Then the callee also ends
	// ctx, so that no call is sent.
	Confirm func() bool

	retries *Retries // nil: none was said, or Allowance alone
	read    int      // Allowance as it was read from a ctx
}

// ParseInbound reads Parent, Attempt, Allowance and Deadline from the headers of a request.
// The caller sets the other fields. values returns the lines of one header: the Values
// method of an http.Header, or Get of gRPC metadata.
//
// No header is an error here. A [HeaderRetryAttempt] that is not one number from 1 to
// [MaxRetryCount] counts as absent. A broken [HeaderRetryAllowance] allows no retry. A
// [HeaderRequestTimeout] that is not one positive number of milliseconds counts as absent;
// otherwise Deadline is that long after now. A [HeaderParent] that is not one UUID in its
// hyphenated form counts as absent.
func ParseInbound(values func(name string) []string) Inbound {
	in := Inbound{Allowance: -1}
	in.Parent = parseParent(values(HeaderParent))
	in.Attempt, _ = parseCount(values(HeaderRetryAttempt))
	if lines := values(HeaderRetryAllowance); len(lines) > 0 {
		in.Allowance, _ = parseCount(lines)
	}
	if timeout, ok := parseMilliseconds(values(HeaderRequestTimeout)); ok {
		in.Deadline = time.Now().Add(timeout)
	}
	return in
}

// Set calls set with each request header that says to a callee what in says: Parent, Attempt,
// Allowance and Deadline. It leaves out a zero Parent or Attempt, a negative Allowance and a
// zero Deadline. Numbers above [MaxRetryCount] become MaxRetryCount. now is the time of the
// request: the callee is told how long after now Deadline is, in milliseconds rounded down,
// at least 1.
func (in Inbound) Set(now time.Time, set func(name, value string)) {
	if in.Parent != [16]byte{} {
		set(HeaderParent, uuid.UUID(in.Parent).String())
	}
	if in.Attempt > 0 {
		set(HeaderRetryAttempt, strconv.Itoa(min(in.Attempt, MaxRetryCount)))
	}
	if in.Allowance >= 0 {
		set(HeaderRetryAllowance, strconv.Itoa(min(in.Allowance, MaxRetryCount)))
	}
	if !in.Deadline.IsZero() {
		set(HeaderRequestTimeout, strconv.FormatInt(max(in.Deadline.Sub(now).Milliseconds(), 1), 10))
	}
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
	in = in.counted()
	if in.Confirm == nil {
		return context.WithValue(ctx, inboundKey{}, in)
	}
	return context.WithValue(ctx, inboundKey{}, sync.OnceValue(in.confirmed))
}

// confirmed returns in as it is once its Confirm has returned.
func (in Inbound) confirmed() Inbound {
	if !in.Confirm() {
		in.FirstSent, in.Rerun = time.Time{}, true
	}
	in.Confirm = nil
	return in
}

// counted returns in with the Retries that its Allowance asks for.
func (in Inbound) counted() Inbound {
	switch {
	case in.Allowance < 0:
		in.retries = nil
	case in.retries == nil || in.Allowance != in.read:
		in.retries = NewRetries(in.Allowance)
	}
	return in
}

// FromContext returns the Inbound that ctx carries. Without one it returns
// false and an Inbound that says nothing (Allowance -1). It blocks only while the Confirm of
// the Inbound runs.
func FromContext(ctx context.Context) (Inbound, bool) {
	var in Inbound
	switch carried := ctx.Value(inboundKey{}).(type) {
	case Inbound:
		in = carried
	case func() Inbound:
		in = carried()
	default:
		return Inbound{Allowance: -1}, false
	}
	if in.retries != nil {
		in.Allowance = in.retries.Left()
		in.read = in.Allowance
	}
	return in, true
}

// parseCount returns the number from 0 to MaxRetryCount that the one line has.
func parseCount(values []string) (n int, ok bool) {
	text, ok := single(values)
	if !ok || !digits(text) {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > MaxRetryCount {
		return 0, false
	}
	return n, true
}

// parseParent returns the UUID that the one line has; zero if it has none.
func parseParent(values []string) [16]byte {
	const hyphenated = 36 // uuid.Parse takes other forms too
	text, ok := single(values)
	if !ok || len(text) != hyphenated {
		return [16]byte{}
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return [16]byte{}
	}
	return id
}

// parseMilliseconds returns the positive number of milliseconds that the one line has.
func parseMilliseconds(values []string) (time.Duration, bool) {
	text, ok := single(values)
	if !ok || !digits(text) {
		return 0, false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > int64(math.MaxInt64/time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// single returns the one line there is, trimmed.
func single(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return strings.Trim(values[0], " \t"), true
}
