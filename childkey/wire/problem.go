package wire

import (
	"encoding/json"
	"math"
	"mime"
	"time"
)

// ProblemContentType is the media type of a [Problem] (RFC 9457).
const ProblemContentType = "application/problem+json"

// TypePrefix comes before the code in a problem's type member.
const TypePrefix = "https://fanonce.dev/problems/"

// MaxProblemBytes is the length of the longest body that [ParseProblem] reads.
const MaxProblemBytes = 16 << 10

// A Problem is the body of every refusal (RFC 9457), with code, retryable and
// retry_after_ms as extension members. It never holds a key, a stored answer
// or a request's body.
type Problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail,omitempty"`
	Instance     string `json:"instance,omitempty"`
	Code         Code   `json:"code"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`
}

// NewProblem returns the problem of code, filled in from its [Situation].
// detail is for people and may be empty; it must not hold a key. Instance and
// RetryAfterMs are the caller's to set. A code that is none of this package's
// gets status 500 and is not retryable.
func NewProblem(code Code, detail string) Problem {
	s, ok := code.Situation()
	if !ok {
		s = Situation{Status: 500, Title: "The idempotency layer failed"}
	}
	return Problem{
		Type: TypePrefix + string(code), Title: s.Title, Status: s.Status, Detail: detail,
		Code: code, Retryable: s.Retryable,
	}
}

// ParseProblem reads an answer with this Content-Type and body as a problem of the
// idempotency layer. ok is false for another media type, a body that is not a JSON object,
// and a body longer than [MaxProblemBytes]. It is false too if the code is not one of this
// package's, or if the type does not belong to the code. Then the service itself answered,
// or a proxy.
func ParseProblem(contentType string, body []byte) (p Problem, ok bool) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != ProblemContentType || len(body) > MaxProblemBytes || json.Unmarshal(body, &p) != nil {
		return Problem{}, false
	}
	if _, known := p.Code.Situation(); !known || p.Type != TypePrefix+string(p.Code) {
		return Problem{}, false
	}
	return p, true
}

// JSON returns p as it goes into the body of an answer.
func (p Problem) JSON() []byte {
	b, _ := json.Marshal(p) // strings and integers: nothing in it can fail
	return b
}

// RetryAfter returns RetryAfterMs as a Duration, 0 if it is negative; at most
// the largest Duration.
func (p Problem) RetryAfter() time.Duration {
	if p.RetryAfterMs > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(max(p.RetryAfterMs, 0)) * time.Millisecond
}
