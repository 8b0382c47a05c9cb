package childkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"sync"
)

// minSecretBytes is the length of the shortest secret of a [Keyed].
const minSecretBytes = 16

// A Keyed derives child keys with a secret (HMAC-SHA-256, RFC 2104). It is for callees that
// may see or guess a parent key and must not compute its other children. It is immutable
// and safe for concurrent use; the zero Keyed derives nothing. Printed or logged it shows
// its key id alone.
//
// All children of a parent must be made with the same secret. Store the key id beside the
// parent, and use a new secret for new parents only.
type Keyed struct {
	kid string
	// The secret is only in the closure that makes new states, where no
	// printer that walks over fields can find it.
	macs sync.Pool
}

// mac is a state of the hash with the secret in it, and its work space. An argument of
// hash.Hash escapes, so a buffer on the stack would move to the heap.
type mac struct {
	hash hash.Hash
	buf  [maxTupleBytes]byte
}

// NewKeyed returns a Keyed for the secret that is known as kid, a name, see
// [CheckName]. The secret must be random, at least 16 bytes long, and is
// copied. The error wraps [ErrBadSecret], or what CheckName returns.
func NewKeyed(kid string, secret []byte) (*Keyed, error) {
	if err := checkName("key id", kid); err != nil {
		return nil, err
	}
	if len(secret) < minSecretBytes {
		return nil, fmt.Errorf("%w: %d bytes, at least %d", ErrBadSecret, len(secret), minSecretBytes)
	}
	secret = bytes.Clone(secret)
	k := &Keyed{kid: kid}
	k.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, secret)} }
	return k, nil
}

// KeyID returns the kid that k was made with.
func (k *Keyed) KeyID() string {
	if k == nil {
		return ""
	}
	return k.kid
}

// Derive is the function [Derive] with k's secret. Its error wraps [ErrEmpty] if
// k is nil or zero; its other errors are that function's.
func (k *Keyed) Derive(parent Key, service, operation string, discriminators ...string) (Key, error) {
	sum, err := k.Sum(parent, service, operation, discriminators...)
	if err != nil {
		return Key{}, err
	}
	return Hex32.Key(sum)
}

// Sum is the function [Sum] with k's secret. Its errors are those of
// [Keyed.Derive].
func (k *Keyed) Sum(parent Key, service, operation string, discriminators ...string) (Hash, error) {
	if k == nil || k.kid == "" {
		return Hash{}, fmt.Errorf("%w: the Keyed is nil or zero, use NewKeyed", ErrEmpty)
	}
	if err := checkTuple(parent, service, operation, discriminators); err != nil {
		return Hash{}, err
	}
	m := k.macs.Get().(*mac) //nolint:errcheck // the pool holds nothing else
	defer k.macs.Put(m)
	m.hash.Reset()
	m.hash.Write(appendTuple(m.buf[:0], []string{domainKeyed, k.kid, parent.String(), service, operation}, discriminators))
	return Hash(m.hash.Sum(m.buf[:0])), nil
}

// String returns the key id; never the secret.
func (k *Keyed) String() string { return "childkey.Keyed(" + k.KeyID() + ")" }

// GoString returns what [Keyed.String] returns.
func (k *Keyed) GoString() string { return k.String() }

// LogValue makes slog print what [Keyed.String] returns.
func (k *Keyed) LogValue() slog.Value { return slog.StringValue(k.String()) }
