package childkey

import (
	"crypto/sha256"
	"fmt"
)

// Derive returns the child key for the call to operation on service on behalf of parent.
// The key is the first 16 bytes, as 32 lower-case hex digits, of a SHA-256 hash (FIPS
// 180-4). The input of the hash is the netstring tuple in SPEC.md. testdata/vectors.json
// has golden values; the tuple and the values do not change within v1.
//
// service and operation are names, see [CheckName]. Discriminators tell several calls of
// one operation under one parent apart: raw bytes, at most [MaxDiscriminators] of them,
// each 1 to [MaxDiscriminatorBytes] long, compared byte by byte and in order. Take them
// from the subject of the call, such as an SKU or the id of a line, never from a position,
// a clock or an attempt.
//
// Derive is pure: retries, restarts and other processes get the same Key. Its
// error wraps [ErrEmpty] (zero parent, empty name or discriminator),
// [ErrTooLong], [ErrTooMany] or [ErrBadName]. It is safe for concurrent use and
// allocates once.
func Derive(parent Key, service, operation string, discriminators ...string) (Key, error) {
	if err := checkTuple(parent, service, operation, discriminators); err != nil {
		return Key{}, err
	}
	sum := sumChild(parent.String(), service, operation, discriminators)
	return hex32(sum[:16]), nil
}

// Sum returns the whole hash of which [Derive] spells the first half, for
// callees that take keys in another [Encoding]. Its errors are Derive's.
func Sum(parent Key, service, operation string, discriminators ...string) (Hash, error) {
	if err := checkTuple(parent, service, operation, discriminators); err != nil {
		return Hash{}, err
	}
	return sumChild(parent.String(), service, operation, discriminators), nil
}

// sumChild is sumTuple for a child. Most are short: written out, and in a buffer that
// is soon cleared, they take a tenth less.
func sumChild(parent, service, operation string, discriminators []string) Hash {
	n := len(childStart) + len(parent) + len(service) + len(operation) + 3*maxPunctuation + len("1:0,")
	for _, d := range discriminators {
		n += len(d) + maxPunctuation
	}
	var buf [128]byte
	if n > len(buf) {
		return sumTuple([]string{domainChild, parent, service, operation}, discriminators)
	}
	b := append(buf[:0], childStart...)
	b = appendNetstring(b, parent)
	b = appendNetstring(b, service)
	b = appendNetstring(b, operation)
	return sha256.Sum256(appendList(b, discriminators))
}

func checkTuple(parent Key, service, operation string, discriminators []string) error {
	if parent.IsZero() {
		return fmt.Errorf("%w: parent key", ErrEmpty)
	}
	if err := checkName("service", service); err != nil {
		return err
	}
	if err := checkName("operation", operation); err != nil {
		return err
	}
	if len(discriminators) == 0 { // as mostly; the call would be a fifth of the check
		return nil
	}
	return CheckDiscriminators(discriminators...)
}
