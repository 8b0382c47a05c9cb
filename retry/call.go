package retry

import (
	"net/http"
	"net/url"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A Call is one logical call over HTTP: one key and one frozen body, however
// many attempts it takes.
type Call struct {
	Method string      // required
	URL    string      // required, absolute: http or https; a fragment is not sent
	Header http.Header // copied; nil means none. Those of package wire are the client's own, those of the connection (Upgrade) HTTP's
	Body   []byte      // copied; nil means no body
	// Stream is the body in place of Body, where it is too long to lie in memory;
	// nil means Body.
	Stream *Stream

	// Key is sent as Idempotency-Key on every attempt. The zero Key makes the
	// call un-keyed: then a method that is not idempotent by RFC 9110 section
	// 9.2.2 gets one attempt, and more only where nothing was sent.
	Key childkey.Key
	// KeyHeader says how the callee takes the key. The zero KeyHeader is
	// Idempotency-Key with a quoted key.
	KeyHeader KeyHeader
	// Cancels is the forward key that an undo cancels; the zero Key: none.
	Cancels childkey.Key
	// Service and Operation name the callee in errors and events, and Service
	// its retry budget. Both may be empty.
	Service, Operation string
	// FirstSent is sent as Idempotency-First-Sent; zero sends none. Set it
	// only from something durable.
	FirstSent time.Time
	// Resumed says that an earlier process may have sent the call: it starts
	// as Unknown.
	Resumed bool
	// Expires is when the callee may have forgotten the key, by this process's clock:
	// no attempt begins then, and the call ends with [ErrKeyExpired]. Zero: never.
	Expires time.Time
	// Marker reads from the header of an answer whether the callee honoured the key,
	// and whether the answer is a repetition; nil means by Idempotent-Replayed. It
	// must not block, keep or change the header.
	Marker func(http.Header) (replayed, honoured bool)
	// Judge may read answers that are peculiar to the callee, as a 409 that
	// means "in progress" there; nil means that there are none. It is asked
	// about every complete answer that is not 2xx and has no code of package
	// wire, and returns false to leave the answer to [StatusVerdict]. It must
	// not block, keep or change the answer.
	Judge func(Answer) (Verdict, bool)

	// of a call that was made of an *http.Request:
	owned bool     // Body is the call's own, and Header still has the client's headers
	url   *url.URL // in place of URL; nil means that one
	host  string   // in place of the URL's; empty means that one
}

// A KeyHeader is how a callee takes its keys.
type KeyHeader struct {
	// Name is the header; empty means Idempotency-Key.
	Name string
	// Bare sends the key's text as it is, not as a structured-field string.
	Bare bool
	// Absent sends no header at all: the key is in the body already. It is
	// still the call's key, which makes it safe to repeat.
	Absent bool
}

// An Answer is a complete answer that is not 2xx.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // its first 64 KiB

	Keyed    bool // the call has a key
	Honoured bool // the callee says that it honoured the key
	Replayed bool // and that an earlier attempt had run
}

// A Response is a complete answer of 2xx.
type Response struct {
	Status   int
	Header   http.Header
	Body     []byte
	Replayed bool // the callee says that an earlier attempt had run
	Attempts int  // counts from 1; with every delivery that net/http repeated by itself
}
