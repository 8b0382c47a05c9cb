package childkey

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxKeyBytes is the length of the longest [Key].
const MaxKeyBytes = 255

// A Key is an idempotency key: 1 to 255 bytes of 0x21-0x7E without `"`, `,` and `\`,
// compared byte by byte. The zero Key means that there is no key. Keys are comparable with
// ==, can be map keys, and are safe for concurrent use.
//
// As text (JSON, flags) a Key is its bare text, so that it can be stored beside its
// request; logs show its [Key.Digest].
type Key struct {
	quoted string // as most keys come and go: it takes no new string to cut the quotes off; empty: no key
}

// Parse returns the key that text spells, bare (k-1) or as a structured-field
// string ("k-1", RFC 9651 section 3.3.3): both are the same Key. White space,
// parameters and escapes are refused, and nothing is trimmed or cut off. Parse
// returns an error wrapping [ErrEmpty], [ErrTooLong] or [ErrBadKey].
func Parse(text string) (Key, error) {
	var quoted string // empty: text is bare
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		quoted, text = text, text[1:len(text)-1]
	}
	switch {
	case text == "":
		return Key{}, fmt.Errorf("%w: key", ErrEmpty)
	case len(text) > MaxKeyBytes:
		return Key{}, fmt.Errorf("%w: key of %d bytes, at most %d", ErrTooLong, len(text), MaxKeyBytes)
	}
	for i := range len(text) {
		if c := text[i]; c < 0x21 || c > 0x7e || strings.IndexByte(`",\`, c) >= 0 {
			return Key{}, fmt.Errorf("%w: byte 0x%02x at offset %d; a key has visible ASCII characters, without \" , and \\", ErrBadKey, c, i)
		}
	}
	if quoted == "" {
		return quote(text), nil
	}
	return Key{quoted}, nil
}

// quote returns the key that text spells, bare.
func quote(text string) Key { return Key{`"` + text + `"`} }

// String returns the bare text of the key, as it goes over the wire. Do not
// log it: log the Key itself with slog, or its [Key.Digest].
func (k Key) String() string {
	if k.IsZero() {
		return ""
	}
	return k.quoted[1 : len(k.quoted)-1]
}

// Quoted returns the key as a structured-field string, with its quotes. The zero Key
// has two quotes and nothing between them.
func (k Key) Quoted() string {
	if k.IsZero() {
		return `""`
	}
	return k.quoted
}

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.quoted == "" }

// Digest returns the first 8 bytes of the key's SHA-256 in hex. Logs, errors and events
// show it instead of the key. The zero Key has none: "".
func (k Key) Digest() string {
	if k.IsZero() {
		return ""
	}
	sum := sha256.Sum256([]byte(k.String()))
	return hex.EncodeToString(sum[:8])
}

// V7Time returns the time of creation that a UUIDv7 (RFC 9562 section 5.7) has
// in it, to the millisecond and in UTC; false if k is not one. Only the form of
// 36 characters counts, in either case: of the 32 digits of a derived key, 1 in
// 64 have version and variant of a v7 by chance.
func (k Key) V7Time() (time.Time, bool) {
	text := k.String()
	if len(text) != 36 {
		return time.Time{}, false
	}
	id, err := uuid.Parse(text)
	if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		return time.Time{}, false
	}
	var ms [8]byte
	copy(ms[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC(), true
}

// MarshalText returns the bare text of the key; that of the zero Key is empty.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets k to the key that text spells, see [Parse]; to the zero Key
// if text is empty.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = Key{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// GoString returns the digest of the key, so that %#v does not print its text.
func (k Key) GoString() string { return "childkey.Key(" + k.Digest() + ")" }

// LogValue makes slog print the digest of the key and never its text.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.Digest()) }
