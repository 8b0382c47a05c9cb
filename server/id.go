package server

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// An ID is a lookup key: the first 16 bytes of the SHA-256 over the
// length-prefixed scope, namespace and key. Stores, logs, problems and operators
// know a key by its ID, in the text form that [ID.String] returns.
type ID [16]byte

// idLayout is the text form of an ID: the hyphens stand where a UUID has them.
const idLayout = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// String returns the ID in the text form of a UUID (RFC 9562 section 4), as Postgres
// shows it too.
func (id ID) String() string { return id.urn()[len(urnPrefix):] }

// urn returns the ID as the instance member of a problem.
func (id ID) urn() string {
	var digits [2 * len(id)]byte
	hex.Encode(digits[:], id[:])
	var text [len(urnPrefix) + len(idLayout)]byte
	copy(text[:], urnPrefix+idLayout)
	next := 0
	for i := len(urnPrefix); i < len(text); i++ {
		if text[i] != '-' {
			text[i] = digits[next]
			next++
		}
	}
	return string(text[:])
}

// MarshalText returns [ID.String], so that JSON and logs show the same text.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// urnPrefix comes before an ID in the instance member of a problem (RFC 9562 section 4).
const urnPrefix = "urn:uuid:"

// ParseID returns the ID that text spells: as [ID.String] returns it, with or without
// the "urn:uuid:" of a problem's instance, or as 32 hex digits. Upper case is accepted.
// Other text returns an error wrapping [ErrArgument].
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

func badID(text string) error { return fmt.Errorf("%w: %.64q is no ID", ErrArgument, text) }
