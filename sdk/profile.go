package sdk

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A Profile says how a callee takes idempotency keys. The zero Profile is
// [Fanonce]; ready-made ones are [Stripe], [Adyen] and [UUIDOnly].
//
// It is part of the contract with the callee: to change what keys look like
// re-keys every call that is under way, and a callee that sees a call under its
// old and under its new key runs it twice.
type Profile struct {
	// KeyHeader carries the key; "" means Idempotency-Key, or none if there is
	// a BodyField.
	KeyHeader string
	// BodyField is the member of the JSON body that carries the key, for
	// callees that take it there; "" means the key is in a header. The body of
	// such a call must be a JSON object without that member.
	BodyField string
	// Bare sends the key as it is; otherwise it is a structured-field string,
	// with quotes (draft-ietf-httpapi-idempotency-key-header-07). In a
	// BodyField it is always bare.
	Bare bool
	// Encoding is the text form of keys; zero means childkey.Hex32.
	Encoding childkey.Encoding
	// Keyed derives the keys with a secret, so that the callee cannot compute
	// the keys of other calls. Nil means plain derivation.
	Keyed *childkey.Keyed
	// MaxKeyBytes is the longest key that the callee takes; zero means
	// childkey.MaxKeyBytes. [New] refuses an Encoding that is longer.
	MaxKeyBytes int
	// Retention is how long the callee remembers a key after it first saw it. A
	// call that was first sent longer ago than that, less a twentieth for
	// clocks that differ, is not sent: it is Unknown, with retry.ErrKeyExpired.
	// What counts is [Request.FirstSent], or when the call was first made under
	// the same ctx. It must be longer than one call can take, by its retry.Config. Zero
	// means that the callee judges, by the Idempotency-First-Sent that it gets;
	// with KeyOnly it gets none, and nobody judges.
	Retention time.Duration
	// Judge reads answers that mean something of their own at this callee, such
	// as a 409; see [ConflictInProgress]. Nil means that there are none.
	Judge func(retry.Answer) (retry.Verdict, bool)
	// Replayed reads the callee's replay marker from the header of an answer: whether
	// it honoured the key, and whether the answer is a repetition. What it says of an
	// honoured 4xx speaks for every attempt of the key: the callee answers all of them
	// so. Nil means Idempotent-Replayed, as this library's callees and Stripe send it.
	Replayed func(http.Header) (replayed, honoured bool)
	// Charset has the characters that the callee takes in keys; "" means all that a
	// key can have, 0x21 to 0x7E without quotes, backslash and comma. [New] refuses
	// an Encoding with others.
	Charset string
	// KeyOnly sends none of this library's headers but the key: for callees
	// that do not know them.
	KeyOnly bool
}

// check returns an error that starts with the name of the field.
func (p Profile) check() error {
	longest := p.MaxKeyBytes
	if longest == 0 {
		longest = childkey.MaxKeyBytes
	}
	switch {
	case p.MaxKeyBytes < 0 || p.MaxKeyBytes > childkey.MaxKeyBytes:
		return field("MaxKeyBytes", fmt.Errorf("%d is not in 0..%d", p.MaxKeyBytes, childkey.MaxKeyBytes))
	case !p.Encoding.Valid():
		return field("Encoding", fmt.Errorf("%w: %v", childkey.ErrBadEncoding, p.Encoding))
	case p.Encoding.Len() > longest:
		return field("Encoding", fmt.Errorf("%w: %v is %d bytes, at most %d",
			ErrEncodingTooLong, p.Encoding, p.Encoding.Len(), longest))
	case p.Charset != "" && strings.Trim(p.Encoding.Alphabet(), p.Charset) != "":
		return field("Charset", fmt.Errorf("%q has not all characters of %v: %q", p.Charset, p.Encoding, p.Encoding.Alphabet()))
	case p.Retention < 0:
		return field("Retention", fmt.Errorf("%v is negative", p.Retention))
	case p.KeyHeader != "" && p.BodyField != "":
		return field("BodyField", errors.New("there is a KeyHeader too, and the key travels once"))
	case p.KeyHeader != "" && !keyHeader(p.KeyHeader):
		return field("KeyHeader", fmt.Errorf("%q cannot carry a key", p.KeyHeader))
	case p.Keyed != nil && p.Keyed.KeyID() == "":
		return field("Keyed", errors.New("zero; use childkey.NewKeyed"))
	}
	return nil
}

// keyHeader returns how the key travels, for the retry client.
func (p Profile) keyHeader() retry.KeyHeader {
	return retry.KeyHeader{Name: p.KeyHeader, Bare: p.Bare, Absent: p.BodyField != ""}
}

// ConflictInProgress is a [Profile.Judge] for callees whose 409 means that the
// first run of this call is still going: waiting helps, with the same key. One that
// is replayed is a stored answer like others.
func ConflictInProgress(answer retry.Answer) (retry.Verdict, bool) {
	return retry.Verdict{Outcome: retry.Unknown, Action: retry.Wait, Evidence: "409: still going, by the callee's profile"},
		answer.Status == http.StatusConflict && !answer.Replayed
}
