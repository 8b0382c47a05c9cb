package childkey

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
)

// A Hash is the SHA-256 or HMAC-SHA-256 of a child's tuple, from [Sum] or
// [Keyed.Sum]; an [Encoding] makes a [Key] of it. Treat it as the key that it
// is: do not log it.
type Hash [32]byte

// An Encoding is a text form of a child key. The callee's API decides which one
// it can take; it is part of the contract with that callee, since another
// encoding is another key. The zero Encoding is [Hex32].
type Encoding uint8

const (
	// Hex32 is the first 16 bytes as lower-case hex digits: 128 bits.
	Hex32 Encoding = iota
	// Hex64 is all 32 bytes as lower-case hex digits: 256 bits.
	Hex64
	// Base64URL22 is the first 16 bytes in unpadded base64url (RFC 4648
	// section 5): 128 bits.
	Base64URL22
	// Base64URL43 is all 32 bytes in unpadded base64url: 256 bits.
	Base64URL43
	// UUIDv8 is the first 16 bytes as a lower-case UUID of version 8 (RFC 9562
	// section 5.8): 122 bits.
	UUIDv8
	// UUIDv4 has the shape of a UUID of version 4, for callees that refuse
	// version 8. It is derived, not random: 122 bits.
	UUIDv4
)

var encodings = [...]struct {
	name string
	size int
}{
	Hex32:       {"hex32", 32},
	Hex64:       {"hex64", 64},
	Base64URL22: {"base64url22", 22},
	Base64URL43: {"base64url43", 43},
	UUIDv8:      {"uuid8", 36},
	UUIDv4:      {"uuid4", 36},
}

// Encodings returns all encodings, the default first.
func Encodings() []Encoding {
	return []Encoding{Hex32, Hex64, Base64URL22, Base64URL43, UUIDv8, UUIDv4}
}

// Valid reports whether e is one of this package's encodings.
func (e Encoding) Valid() bool { return int(e) < len(encodings) }

// Len returns the length in bytes of every key in this encoding; 0 if e is not
// valid.
func (e Encoding) Len() int {
	if !e.Valid() {
		return 0
	}
	return encodings[e].size
}

// Alphabet returns the characters that keys in this encoding are made of; "" if e is
// not valid.
func (e Encoding) Alphabet() string {
	const digits = "0123456789"
	switch e {
	case Hex32, Hex64:
		return digits + "abcdef"
	case UUIDv8, UUIDv4:
		return digits + "abcdef-"
	case Base64URL22, Base64URL43:
		return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + digits + "-_"
	default:
		return ""
	}
}

// String returns the name that testdata/vectors.json has for e.
func (e Encoding) String() string {
	if !e.Valid() {
		return "Encoding(" + strconv.Itoa(int(e)) + ")"
	}
	return encodings[e].name
}

// Key returns sum as a key in this encoding. It returns an error wrapping
// [ErrBadEncoding] if e is not valid.
func (e Encoding) Key(sum Hash) (Key, error) {
	if e == Hex32 { // what nearly everybody wants
		return hex32(sum[:16]), nil
	}
	var buf [64]byte
	text, err := e.appendTo(buf[:0], sum)
	if err != nil {
		return Key{}, err
	}
	return quote(string(text)), nil
}

// hex32 is not built on appendTo, because that would copy the buffer twice. It uses a table,
// because encoding/hex is slower.
func hex32(sum []byte) Key {
	var quoted [1 + 32 + 1]byte
	quoted[0], quoted[33] = '"', '"'
	for i, b := range sum[:16] {
		quoted[1+2*i], quoted[2+2*i] = hexPairs[b][0], hexPairs[b][1]
	}
	return Key{string(quoted[:])}
}

var hexPairs = func() (pairs [256][2]byte) {
	for i := range pairs {
		hex.Encode(pairs[i][:], []byte{byte(i)})
	}
	return pairs
}()

// appendTo appends what [Encoding.Key] returns to dst and returns the extended buffer.
func (e Encoding) appendTo(dst []byte, sum Hash) ([]byte, error) {
	switch e {
	case Hex32:
		return hex.AppendEncode(dst, sum[:16]), nil
	case Hex64:
		return hex.AppendEncode(dst, sum[:]), nil
	case Base64URL22:
		return base64.RawURLEncoding.AppendEncode(dst, sum[:16]), nil
	case Base64URL43:
		return base64.RawURLEncoding.AppendEncode(dst, sum[:]), nil
	case UUIDv8:
		return appendUUID(dst, sum, 8), nil
	case UUIDv4:
		return appendUUID(dst, sum, 4), nil
	default:
		return dst, fmt.Errorf("%w: %v", ErrBadEncoding, e)
	}
}

func appendUUID(dst []byte, sum Hash, version byte) []byte {
	sum[6] = sum[6]&0x0f | version<<4
	sum[8] = sum[8]&0x3f | 0x80
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		start := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, sum[start:end])
	}
	return dst
}
