package retry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A Profile says how a service takes idempotency keys. Ready-made ones are [Fanonce],
// [Unguarded], [Stripe], [Adyen] and [UUIDOnly]. The zero Profile is that of a service which follows
// draft-ietf-httpapi-idempotency-key-header-07 and does not know this library.
//
// It is part of the contract with the service. Another form of keys gives every call that
// is running another key, and the service then runs that call twice.
type Profile struct {
	// KeyHeader carries the key; "" means Idempotency-Key, or no header if there is a
	// BodyField.
	KeyHeader string
	// BodyField is the member of the JSON body that carries the key; "" means that the
	// key is in a header. The body of such a call must be a JSON object without that
	// member. A call without a body is sent without its key if its method is idempotent
	// (RFC 9110 section 9.2.2), and is refused otherwise.
	BodyField string
	// Bare sends the key as it is. Otherwise it is a structured-field string, with
	// quotes. In a BodyField the key is always bare.
	Bare bool
	// Headers names the other headers of this library that the service gets. They are
	// Idempotency-First-Sent, Idempotency-Cancels, Idempotency-Parent, Retry-Attempt,
	// Retry-Allowance and Request-Timeout-Ms. Nil means none. Name only headers that the service knows.
	Headers []string

	// Encoding is the text form of the keys that are derived for the service; zero means
	// childkey.Hex32. See [Profile.Derive].
	Encoding childkey.Encoding
	// Keyed derives the keys with a secret, so that the service cannot compute the keys
	// of other calls. Nil means plain derivation.
	Keyed *childkey.Keyed
	// MaxKeyBytes is the length of the longest key that the service takes; zero means
	// childkey.MaxKeyBytes. A longer Encoding is refused, and so is a call with a longer
	// key.
	MaxKeyBytes int
	// Charset has the characters that the service takes in keys; "" means all that a key
	// can have. An Encoding with others is refused, and so is a call with such a key.
	Charset string

	// Retention is how long the service remembers a key after it first saw it. A call
	// that was first sent longer ago, less a twentieth for clocks that differ, is not
	// sent: it is Unknown, with [ErrKeyExpired]. See [Profile.Expires]. Retention must be
	// longer than [Config.Timeout]. Zero means that the service decides, by
	// Idempotency-First-Sent if it gets that.
	Retention time.Duration

	// Conflict is what a 409 without a code of package wire means, in the answer to a
	// call with a key, unless the service says that it honoured the key. The zero Verdict
	// means that an earlier attempt may be running, or that the service refused: the call
	// is Unknown and sent again. Verdict{Action: Wait} means that an earlier attempt is
	// running: the client waits and asks again. Verdict{Outcome: Rejected} means that the
	// service refused the call, as with any other 4xx. No other Outcome is allowed.
	Conflict Verdict
	// Classify reads answers that mean something of their own at this service. Nil means
	// that there are none. It gets every complete answer that comes without a code of package
	// wire, and returns false to leave it to [Answer.Verdict]. It must not block, keep or
	// change the answer.
	//
	// It gets a 2xx too, because some services answer 200 with an error in the body. If it
	// returns an Outcome other than Completed, the call fails with an [*Error] that has the
	// answer, and is sent again where the Action is Retry. [Client.Do] and the round tripper
	// return the answer of a call that ended so, with its body to read. A request without a
	// key that passes through the round tripper is not asked about.
	Classify func(Answer) (Verdict, bool)
	// Replayed reads from the header of an answer what the service says of the key: whether
	// the service honoured the key, and whether the answer is a repetition. An honoured 4xx
	// speaks for every attempt of the key. Nil means Idempotent-Replayed, as this library's
	// services and Stripe send it. It must not block, keep or change the header.
	Replayed func(http.Header) (replayed, honoured bool)
	// MarksAnswers says that every answer of a handler of the service has what Replayed reads,
	// its first one too. An answer without that mark, and without a code of package wire, is
	// then a proxy's word and not the service's:
	//
	//   - A 2xx to a call that carried a key, by a method that is not safe, is Unknown, with
	//     [ErrUnmarked]. The client does not send that call again by itself.
	//   - Any other answer without the mark is not final while an earlier attempt may have had
	//     an effect: the client tries again, as after a 502.
	//
	// False means that a 2xx is the service's word, marked or not.
	MarksAnswers bool
}

// Derive returns the child key for the call to operation on service under parent, in the
// form that the service takes. It is childkey.Derive with the profile's Encoding and
// secret, has the same errors, and is as pure. A nil Profile has the forms of a zero one.
func (p *Profile) Derive(parent childkey.Key, service, operation string, discriminators ...string) (childkey.Key, error) {
	if p == nil {
		p = new(Profile)
	}
	sum := childkey.Sum
	if p.Keyed != nil {
		sum = p.Keyed.Sum
	}
	hash, err := sum(parent, service, operation, discriminators...)
	if err != nil {
		return childkey.Key{}, err
	}
	return p.Encoding.Key(hash)
}

// Expires returns when the service may have forgotten a call that was first sent at first:
// Retention later, less a twentieth for clocks that differ. It is what [Call.Expires] and
// [Task.Expires] want. Without a Retention it returns zero, which means never.
func (p *Profile) Expires(first time.Time) time.Time {
	if p == nil || p.Retention == 0 {
		return time.Time{}
	}
	return first.Add(p.Retention - p.Retention/20)
}

// longestCall returns the default of [Config.Timeout]: half of what the service remembers, if that is
// less than [DefaultTimeout].
func (p *Profile) longestCall() time.Duration {
	if p == nil || p.Retention <= 0 {
		return DefaultTimeout
	}
	return min(DefaultTimeout, max((p.Retention-p.Retention/20)/2, 1))
}

// profileError returns err as that of a Profile's field.
func profileError(field, format string, args ...any) error {
	return fmt.Errorf("%w: Profile.%s: %w", ErrConfig, field, fmt.Errorf(format, args...))
}

// check returns an error wrapping ErrConfig if the profile contradicts itself, or cannot
// serve calls that take up to timeout.
func (p *Profile) check(timeout time.Duration) error {
	switch {
	case p.KeyHeader != "" && p.BodyField != "":
		return profileError("BodyField", "%q: there is a KeyHeader too, and the key travels once", p.BodyField)
	case p.KeyHeader != "" && !carriesKeys(p.KeyHeader):
		return profileError("KeyHeader", "%q cannot carry a key", p.KeyHeader)
	case !utf8.ValidString(p.BodyField):
		return profileError("BodyField", "%q is not UTF-8", p.BodyField)
	case p.Conflict.Outcome != Unknown && p.Conflict.Outcome != Rejected:
		return profileError("Conflict", "Outcome %v: use Unknown or Rejected", p.Conflict.Outcome)
	}
	if err := p.checkForm(); err != nil {
		return err
	}
	if err := p.checkHeaders(); err != nil {
		return err
	}
	switch remembered := p.Retention - p.Retention/20; {
	case p.Retention < 0:
		return profileError("Retention", "%v is negative", p.Retention)
	case p.Retention > 0 && remembered <= timeout:
		return profileError("Retention", "%v, %v with its margin, is not longer than one call may take: %v", p.Retention, remembered, timeout)
	}
	return nil
}

// checkForm checks what is said of the text of keys.
func (p *Profile) checkForm() error {
	longest := cmp.Or(p.MaxKeyBytes, childkey.MaxKeyBytes)
	switch {
	case p.MaxKeyBytes < 0 || p.MaxKeyBytes > childkey.MaxKeyBytes:
		return profileError("MaxKeyBytes", "%d is not in 0..%d", p.MaxKeyBytes, childkey.MaxKeyBytes)
	case !p.Encoding.Valid():
		return profileError("Encoding", "%w: %v", childkey.ErrBadEncoding, p.Encoding)
	case p.Encoding.Len() > longest:
		return profileError("Encoding", "%v is %d bytes, at most %d", p.Encoding, p.Encoding.Len(), longest)
	case strings.ContainsFunc(p.Charset, notInKeys):
		return profileError("Charset", "%q has a character that no key can have", p.Charset)
	case p.Charset != "" && strings.Trim(p.Encoding.Alphabet(), p.Charset) != "":
		return profileError("Charset", "%q has not all characters of %v: %q", p.Charset, p.Encoding, p.Encoding.Alphabet())
	case p.Keyed != nil && p.Keyed.KeyID() == "":
		return profileError("Keyed", "%w", errZeroKeyed)
	}
	return nil
}

var errZeroKeyed = errors.New("zero; use childkey.NewKeyed")

// notInKeys reports whether no key has the character.
func notInKeys(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",\`, c) }

// checkHeaders checks that each of Headers is one of ours, besides the key's, and there once.
func (p *Profile) checkHeaders() error {
	for i, name := range p.Headers {
		name = http.CanonicalHeaderKey(name)
		switch {
		case name == wire.HeaderKey:
			return profileError("Headers", "%s carries the key; see KeyHeader", name)
		case !slices.Contains(ours, name):
			return profileError("Headers", "%q is not a header of this library", p.Headers[i])
		case slices.ContainsFunc(p.Headers[:i], func(h string) bool { return http.CanonicalHeaderKey(h) == name }):
			return profileError("Headers", "%s is there twice", name)
		}
	}
	return nil
}

// taken are headers that belong to a connection or its message, or have a meaning of
// their own.
var taken = []string{
	"Accept", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Expect",
	"Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", wire.HeaderPrefer,
}

// carriesKeys reports whether a key can travel in the header of that name.
func carriesKeys(name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return isToken(name) && !slices.Contains(taken, canonical) && (canonical == wire.HeaderKey || !slices.Contains(ours, canonical))
}

// Fanonce returns the profile of services that package server guards: keys of 32 hex
// digits, quoted, in Idempotency-Key, and all headers of this library. Such a service
// decides by itself whether a call is too old, and what became of it. Its guard marks every
// answer of a handler, so an answer without the mark proves nothing ([Profile.MarksAnswers]).
func Fanonce() *Profile {
	p := Unguarded()
	p.MarksAnswers = true
	return p
}

// Unguarded returns the profile of [Fanonce] without MarksAnswers. It is for services of
// one's own that no guard of package server protects, such as stubs in tests, and for guarded
// ones behind a gateway that removes Idempotent-Replayed from their answers: every 2xx is the
// service's word then, even where a proxy has said it.
func Unguarded() *Profile {
	return &Profile{Headers: []string{
		wire.HeaderFirstSent, wire.HeaderCancels, wire.HeaderParent,
		wire.HeaderRetryAttempt, wire.HeaderRetryAllowance, wire.HeaderRequestTimeout,
	}}
}

// Stripe returns the profile of Stripe's API v1: a bare Idempotency-Key of at most 255
// bytes, kept for at least 24 hours. A 409 means that an earlier attempt is running.
// Stripe-Should-Retry decides where it is sent.
func Stripe() *Profile {
	return &Profile{Bare: true, Retention: 24 * time.Hour, Conflict: Verdict{Action: Wait}, Classify: classifyStripe}
}

func classifyStripe(answer Answer) (Verdict, bool) {
	verdict := answer.Verdict()
	if verdict.Outcome == Completed {
		return verdict, true
	}
	switch answer.Header.Get("Stripe-Should-Retry") {
	case "false":
		verdict.NotRetryable = true
	case "true":
		if verdict.Action == Stop {
			verdict.Action = Retry
		}
	}
	return verdict, true
}

// Adyen returns the profile of Adyen's Checkout API: a bare Idempotency-Key of at most 64
// bytes, kept for at least 7 days. Error 704 means that an earlier attempt is running. An
// answer with Transient-Error: true is sent again. An Idempotency-Key header in an answer
// proves nothing, because Adyen sends it with first answers and with repetitions.
func Adyen() *Profile {
	return &Profile{Bare: true, MaxKeyBytes: 64, Retention: 7 * 24 * time.Hour, Classify: classifyAdyen}
}

func classifyAdyen(answer Answer) (Verdict, bool) {
	if answer.Status/100 == 2 {
		return Verdict{}, false
	}
	var problem struct {
		ErrorCode string `json:"errorCode"`
	}
	_ = json.Unmarshal(answer.Body, &problem) // other bodies leave the code empty
	switch {
	case problem.ErrorCode == "704":
		return Verdict{Outcome: Unknown, Action: Wait, Evidence: "error 704: processed already, or in progress"}, true
	case strings.EqualFold(answer.Header.Get("Transient-Error"), "true"):
		return Verdict{Outcome: Unknown, Action: Retry, Evidence: "a transient error, says the callee"}, true
	}
	return Verdict{}, false
}

// UUIDOnly returns the profile of services that take only a UUIDv4: a bare Idempotency-Key
// in that shape, kept for 24 hours. For another header, another retention or a 409 of known
// meaning change the fields of the result.
func UUIDOnly() *Profile {
	return &Profile{
		Bare: true, Encoding: childkey.UUIDv4, MaxKeyBytes: 36, Charset: "0123456789abcdef-",
		Retention: 24 * time.Hour,
	}
}

// A carrier knows how the requests of a client carry keys. It is the Profile in the form
// that calls use, and is only read.
type carrier struct {
	profile Profile
	asGiven bool // without a Profile: a request with a key keeps its headers as they are

	keyHeader string // in the spelling of net/http, also where the key is in the body
	bare      bool
	bodyField string // "": the key is in a header

	// the other headers of this library that the service gets
	firstSent, cancels, parent, attempt, callerRetries, timeout bool

	replayed func(http.Header) (replayed, honoured bool)
}

// newCarrier returns the carrier of p; p is nil without a Profile. Without one
// Idempotency-Key is quoted in a Call, and the service gets what the Call itself asks for.
func newCarrier(p *Profile) carrier {
	if p == nil {
		return carrier{asGiven: true, keyHeader: wire.HeaderKey, firstSent: true, cancels: true, replayed: replayedHeader}
	}
	c := carrier{profile: *p, keyHeader: wire.HeaderKey, bare: p.Bare, bodyField: p.BodyField, replayed: p.Replayed}
	c.profile.Headers = slices.Clone(p.Headers)
	if p.KeyHeader != "" {
		c.keyHeader = http.CanonicalHeaderKey(p.KeyHeader)
	}
	if c.replayed == nil {
		c.replayed = replayedHeader
	}
	for header, gets := range map[string]*bool{
		wire.HeaderFirstSent: &c.firstSent, wire.HeaderCancels: &c.cancels, wire.HeaderParent: &c.parent,
		wire.HeaderRetryAttempt: &c.attempt, wire.HeaderRetryAllowance: &c.callerRetries, wire.HeaderRequestTimeout: &c.timeout,
	} {
		*gets = slices.ContainsFunc(p.Headers, func(name string) bool { return strings.EqualFold(name, header) })
	}
	return c
}

// check returns an error wrapping ErrInvalid if the service does not take the key.
func (c *carrier) check(key childkey.Key) error {
	if key.IsZero() {
		return nil
	}
	text := key.String()
	switch longest := c.profile.MaxKeyBytes; {
	case longest > 0 && len(text) > longest:
		return fmt.Errorf("%w: Key: %d bytes, the service takes at most %d", ErrInvalid, len(text), longest)
	case c.profile.Charset != "" && strings.Trim(text, c.profile.Charset) != "":
		return fmt.Errorf("%w: Key: it has characters that the service does not take", ErrInvalid)
	}
	return nil
}

// expire has the call end when the service may have forgotten its key, where the call
// itself does not say when that is. Reading again does no harm.
func (c *carrier) expire(call *Call) {
	if !call.Expires.IsZero() || call.FirstSent.IsZero() || call.Key.IsZero() || isSafe(call.Method) {
		return
	}
	call.Expires = c.profile.Expires(call.FirstSent)
	if !call.Expires.IsZero() && !time.Now().Before(call.Expires) {
		call.Resumed = true // somebody sent it before
	}
}
