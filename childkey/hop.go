package childkey

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxScopeBytes is the length of the longest scope.
const MaxScopeBytes = 1024

// maxNamespaceBytes leaves room for the longest namespace that this module makes:
// a guard's namespace, a colon, "inbox/" and a consumer.
const maxNamespaceBytes = 2*MaxNameBytes + len(":inbox/")

// Hop returns the hop key of key: the parent key of the work that one service
// does for it. Two callers may choose the same key, and the next service need
// not know them apart. The hop key therefore derives from scope and namespace
// too: two scopes never have the same hop key, nor have two namespaces.
//
// scope is whose key it is, such as a tenant: UTF-8 without NUL, at most
// [MaxScopeBytes] long. namespace is the part of the service that uses the key.
// It holds the bytes of a name and ":", and can be longer than a name. Both may
// be empty. A guarded handler's ctx carries the hop key already; see
// [FromContext]. The steps of a saga have the namespace "saga/" and the name of
// its definition.
//
// The hop key is the first 16 bytes, as 32 lower-case hex digits, of a SHA-256
// hash (FIPS 180-4). SPEC.md lays out the input of the hash, and
// testdata/vectors.json has golden values. Neither changes within v1.
//
// Hop is pure. Its error wraps [ErrEmpty] (the zero key), [ErrTooLong],
// [ErrBadScope] or [ErrBadName] (the namespace). It is safe for concurrent use
// and allocates once unless the scope is long.
func Hop(scope, namespace string, key Key) (Key, error) {
	if key.IsZero() {
		return Key{}, fmt.Errorf("%w: key", ErrEmpty)
	}
	if err := CheckScope(scope); err != nil {
		return Key{}, err
	}
	if err := checkNamespace(namespace); err != nil {
		return Key{}, err
	}
	var buf [256]byte
	b := append(buf[:0], hopStart...)
	b = appendNetstring(b, scope)
	b = appendNetstring(b, namespace)
	sum := sha256.Sum256(appendNetstring(b, key.String()))
	return hex32(sum[:16]), nil
}

// CheckScope returns nil if [Hop] takes this scope. Otherwise its error wraps
// [ErrTooLong] or [ErrBadScope] and does not repeat the scope, which may name a
// person.
func CheckScope(scope string) error {
	switch {
	case len(scope) > MaxScopeBytes:
		return fmt.Errorf("%w: scope of %d bytes, at most %d", ErrTooLong, len(scope), MaxScopeBytes)
	case !utf8.ValidString(scope):
		return fmt.Errorf("%w: not UTF-8", ErrBadScope)
	case strings.IndexByte(scope, 0) >= 0:
		return fmt.Errorf("%w: has a NUL", ErrBadScope)
	}
	return nil
}

func checkNamespace(namespace string) error {
	if len(namespace) > maxNamespaceBytes {
		return fmt.Errorf("%w: namespace of %d bytes, at most %d", ErrTooLong, len(namespace), maxNamespaceBytes)
	}
	for i := range len(namespace) {
		if c := namespace[i]; !nameByte(c, i == 0) && (c != ':' || i == 0) {
			return badName("namespace", namespace, i)
		}
	}
	return nil
}
