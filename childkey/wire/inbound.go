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

// maxRetryCount is the largest number that [HeaderRetryAttempt] may hold.
const maxRetryCount = 16

// Inbound is what a guarded handler's request says to the calls made on its
// behalf. The callee puts it into the handler's ctx; the caller's side reads
// it when it sends child calls.
type Inbound struct {
	// FirstSent is the time, by the store's clock, at which this request's key
	// was first claimed: the same for every run. Child calls send it as
	// [HeaderFirstSent]. Zero means unknown: they send none.
	FirstSent time.Time
	// ForwardSent is when the calls that an undo cancels can have been sent first. A child call that names a forward key
	// ([HeaderCancels]) sends it instead of a later FirstSent, unless the caller knows that the forward call took effect.
	// Otherwise a callee that has swept its record of the forward call would take it for one that never ran. Zero
	// means FirstSent.
	ForwardSent time.Time
	// ForwardRan says that the caller of this undo has the answer of the forward call ([HeaderForward]).
	ForwardRan bool
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
	// CallerRetries says that the caller, or a caller above it, retries this request itself.
	// Calls made on its behalf then get one attempt each, so that the retries of several
	// hops do not multiply. They pass the fact on.
	CallerRetries bool
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
}

// ParseInbound reads Parent, ForwardRan, Attempt, CallerRetries and Deadline from the headers of a request.
// The caller sets the other fields. values returns the lines of one header: the Values
// method of an http.Header, or Get of gRPC metadata.
//
// No header is an error here. A [HeaderRetryAttempt] that is not one number from 1 to
// 16 counts as absent. So does a [HeaderRetryAllowance] that is anything but one 0: other
// software may use that name for numbers that mean something else. A [HeaderRequestTimeout] that is not one positive number of milliseconds counts as absent;
// otherwise Deadline is that long after now. A [HeaderParent] that is not one UUID in its
// hyphenated form counts as absent.
func ParseInbound(values func(name string) []string) Inbound {
	var in Inbound
	in.Parent = parseParent(values(HeaderParent))
	forward, _ := single(values(HeaderForward))
	in.ForwardRan = forward == ForwardRan
	in.Attempt = parseAttempt(values(HeaderRetryAttempt))
	allowance, _ := single(values(HeaderRetryAllowance))
	in.CallerRetries = allowance == "0"
	if timeout, ok := parseMilliseconds(values(HeaderRequestTimeout)); ok {
		in.Deadline = time.Now().Add(timeout)
	}
	return in
}

// Set calls set with each request header that says to a callee what in says: Parent, Attempt,
// CallerRetries and Deadline. It leaves out what is zero. An Attempt above 16 becomes 16. now
// is the time of the request: the callee is told how long after now Deadline is, in
// milliseconds rounded down, at least 1.
func (in Inbound) Set(now time.Time, set func(name, value string)) {
	if in.Parent != [16]byte{} {
		set(HeaderParent, uuid.UUID(in.Parent).String())
	}
	if in.Attempt > 0 {
		set(HeaderRetryAttempt, strconv.Itoa(min(in.Attempt, maxRetryCount)))
	}
	if in.CallerRetries {
		set(HeaderRetryAllowance, "0")
	}
	if !in.Deadline.IsZero() {
		set(HeaderRequestTimeout, strconv.FormatInt(max(in.Deadline.Sub(now).Milliseconds(), 1), 10))
	}
}

type inboundKey struct{}

// NewContext returns ctx carrying in.
func NewContext(ctx context.Context, in Inbound) context.Context {
	if in.Confirm == nil {
		return context.WithValue(ctx, inboundKey{}, in)
	}
	return context.WithValue(ctx, inboundKey{}, sync.OnceValue(in.confirm))
}

// confirm returns in as it is once its Confirm has returned.
func (in Inbound) confirm() Inbound {
	if !in.Confirm() {
		in.FirstSent, in.Rerun = time.Time{}, true
	}
	in.Confirm = nil
	return in
}

// FromContext returns the Inbound that ctx carries; false if there is none. It blocks only
// while the Confirm of the Inbound runs.
func FromContext(ctx context.Context) (Inbound, bool) {
	switch carried := ctx.Value(inboundKey{}).(type) {
	case Inbound:
		return carried, true
	case func() Inbound:
		return carried(), true
	}
	return Inbound{}, false
}

// parseAttempt returns the number from 1 to maxRetryCount that the one line has; 0 if it has
// none.
func parseAttempt(values []string) int {
	text, ok := single(values)
	if !ok || !digits(text) {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxRetryCount {
		return 0
	}
	return n
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
