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

	// Key is sent on every attempt, as [Config.Profile] says. Without a Profile it is
	// sent as Idempotency-Key, in quotes. The zero Key makes the call un-keyed. Then a
	// method that is not idempotent by RFC 9110 section 9.2.2 is repeated in two cases
	// only. Either nothing was sent, or the answer says that nothing was done, as 421, 425
	// and 429 do.
	Key childkey.Key
	// Cancels is the forward key that an undo cancels; the zero Key means none. It is
	// not sent to a service whose Profile does not name Idempotency-Cancels.
	Cancels childkey.Key
	// Service and Operation name the callee in errors and events, and Service
	// its retry budget. Both may be empty.
	Service, Operation string
	// FirstSent is when the call was first sent; zero means that nobody knows. Set it
	// only from something durable. It is sent as Idempotency-First-Sent, unless a Profile
	// does not name that header. A Profile with a Retention bounds the call by it.
	FirstSent time.Time
	// Resumed says that an earlier process may have sent the call: it starts as Unknown. A
	// ctx with the rerun of an inbound request ([wire.Inbound.Rerun]) says so of all its
	// calls, except those by a safe method (GET, HEAD, OPTIONS, TRACE).
	Resumed bool
	// Expires is when the callee may have forgotten the key, by this process's clock:
	// no attempt begins then, and the call ends with [ErrKeyExpired]. Zero means
	// [Profile.Expires] of FirstSent, or never if there is no FirstSent.
	Expires time.Time

	// of a call that was made of an *http.Request:
	owned bool         // Body is the call's own, and Header still has the client's headers
	given childkey.Key // the key that Header has
	url   *url.URL     // in place of URL; nil means that one
	host  string       // in place of the URL's; empty means that one
	close bool         // asks for the end of the connection after the answer
}

// An Answer is a complete answer that is not 2xx.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // its first 64 KiB

	Keyed    bool // the call has a key
	Honoured bool // the callee says that it honoured the key
	Replayed bool // and that an earlier attempt had run

	conflict Conflict // what a 409 means
}

// A Response is a complete answer of 2xx.
type Response struct {
	Status   int
	Header   http.Header
	Body     []byte
	Replayed bool // the callee says that an earlier attempt had run
	Attempts int  // counts from 1; with every delivery that net/http repeated by itself
}
