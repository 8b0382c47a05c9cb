package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// An ID is a lookup key: the first 16 bytes of the SHA-256 over the
// length-prefixed scope, namespace and key. Stores, logs, problems and operators
// know a key by its ID, in the text form that [ID.String] returns.
type ID [16]byte

// idLayout is the text form of an ID: the hyphens stand where a UUID has them.
const idLayout = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// String returns the ID in the text form of a UUID (RFC 9562 section 4), as Postgres
// shows it too.
func (id ID) String() string {
	var text [len(idLayout)]byte
	return string(id.append(text[:0]))
}

// AppendText appends [ID.String] to b. It never returns an error.
func (id ID) AppendText(b []byte) ([]byte, error) { return id.append(b), nil }

func (id ID) append(b []byte) []byte {
	var digits [2 * len(id)]byte
	hex.Encode(digits[:], id[:])
	next := 0
	for _, c := range []byte(idLayout) {
		if c != '-' {
			c = digits[next]
			next++
		}
		b = append(b, c)
	}
	return b
}

// MarshalText returns [ID.String], so that JSON and logs show the same text.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// urnPrefix comes before an ID in the instance member of a problem (RFC 9562 section 4).
const urnPrefix = "urn:uuid:"

// ParseID returns the ID in text. Its form is that of [ID.String], with or without the "urn:uuid:" of a problem's
// instance, or 32 hex digits. Upper case is accepted. Other text returns an error wrapping [ErrArgument].
func ParseID(text string) (ID, error) {
	digits := text
	if len(digits) >= len(urnPrefix) && strings.EqualFold(digits[:len(urnPrefix)], urnPrefix) {
		digits = digits[len(urnPrefix):]
	}
	if len(digits) == len(idLayout) {
		for i := range len(idLayout) {
			if (digits[i] == '-') != (idLayout[i] == '-') {
				return ID{}, badID(text)
			}
		}
		digits = strings.ReplaceAll(digits, "-", "")
	}
	var id ID
	if len(digits) != 2*len(id) {
		return ID{}, badID(text)
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, badID(text)
	}
	return id, nil
}

func badID(text string) error {
	return fmt.Errorf("%w: %.64q is no ID, which has the form of a UUID", ErrArgument, text)
}

// NewID returns the ID of a key. namespace is the Namespace of the guard's Config; scope is the scope of the key.
func NewID(scope, namespace string, key childkey.Key) ID {
	b := make([]byte, 0, 512)
	for _, field := range [...]string{scope, namespace, key.String()} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(field))) // so different lists give different bytes
		b = append(b, field...)
	}
	sum := sha256.Sum256(b)
	return ID(sum[:len(ID{})])
}
