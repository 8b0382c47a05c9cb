package childkey

import "fmt"

// FromParts returns the parent key for an intent that has a business id. The key is the
// first 16 bytes, as 32 lower-case hex digits, of a SHA-256 hash. The input of the hash is
// the netstring tuple in SPEC.md. It is pure, so that a process that starts over finds the
// same key again.
//
// namespace is a name, see [CheckName], that tells kinds of intent apart. parts
// are raw bytes, 1 to [MaxDiscriminators] of them, each 1 to
// [MaxDiscriminatorBytes] long: the business id, and a revision that grows when
// the user means it again ("order-42", "rev-2"). An attempt, a clock or a host
// name does not belong there.
//
// A program that can guess the parts can compute the key and all its children: a key does
// not prove an identity. The error wraps [ErrEmpty] (no namespace, no part or an empty
// one), [ErrTooLong], [ErrTooMany] or [ErrBadName]. FromParts is safe for concurrent use
// and allocates once.
func FromParts(namespace string, parts ...string) (Key, error) {
	if err := checkName("namespace", namespace); err != nil {
		return Key{}, err
	}
	// Without a part all intents of the namespace would be one.
	if len(parts) == 0 {
		return Key{}, fmt.Errorf("%w: no parts", ErrEmpty)
	}
	if err := checkList("part", parts); err != nil {
		return Key{}, err
	}
	return Hex32.Key(sumTuple([]string{domainParent, namespace}, parts))
}
