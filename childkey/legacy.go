package childkey

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Legacy returns the first 32 hex digits of SHA-256("parent:service:operation"),
// the formula that many hand-written callers use, for services that have keys of
// that form in their stores. New code wants [Derive].
//
// Its error wraps [ErrBadKey] or [ErrBadName] if parent, service or operation
// has a ":": ("a:b", "c") and ("a", "b:c") would get one key. Its other errors
// are Derive's. It is safe for concurrent use.
func Legacy(parent Key, service, operation string) (Key, error) {
	if err := checkTuple(parent, service, operation, nil); err != nil {
		return Key{}, err
	}
	if i := strings.IndexByte(parent.String(), ':'); i >= 0 {
		return Key{}, fmt.Errorf("%w: parent key has a colon at offset %d, which would make two keys one", ErrBadKey, i)
	}
	var buf [maxTupleBytes]byte
	b := append(buf[:0], parent.String()...)
	b = append(append(b, ':'), service...)
	b = append(append(b, ':'), operation...)
	return Hex32.Key(sha256.Sum256(b))
}
