package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// MaxScopeBytes is the length of the longest scope.
const MaxScopeBytes = 255

// An ID is what journals, logs and operators know a saga by: the first 16 bytes
// of the SHA-256 over its scope, its definition's name and its key,
// length-prefixed. The same key under two definitions, or in two scopes, is the
// key of two sagas.
type ID [16]byte

// IDOf returns the ID of the saga of that definition with that key in that scope.
// definition is saga.Definition.Name. The scope "" is that of sagas that were started
// without saga.Scope.
func IDOf(scope, definition string, key childkey.Key) ID {
	h := sha256.New()
	for _, part := range []string{"saga/v1", scope, definition, key.String()} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return ID(h.Sum(nil)[:16])
}

// String returns the ID in hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID returns the ID in text: the hex digits of [ID.String], or those of a UUID. An error means that text is no ID.
func ParseID(text string) (id ID, err error) {
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) == hex.EncodedLen(len(id)) {
		_, err = hex.Decode(id[:], []byte(digits))
	}
	if err != nil || len(digits) != hex.EncodedLen(len(id)) {
		return ID{}, fmt.Errorf("saga: %.64q is no ID, which has 32 hex digits", text)
	}
	return id, nil
}

// An EngineID names one life of an engine: it is random, and an engine whose
// lease ran out goes on under another one.
type EngineID [16]byte

// IsZero reports whether id is empty: no engine has the zero ID.
func (id EngineID) IsZero() bool { return id == EngineID{} }

// String returns the first 4 bytes in hex.
func (id EngineID) String() string { return hex.EncodeToString(id[:4]) }
