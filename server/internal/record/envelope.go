package record

import (
	"encoding/binary"
	"errors"
	"net/textproto"
	"strings"
)

// The envelope: how an HTTP answer's headers and body are stored.
//
//	version (1 byte, 1) | number of lines | per line: length, name, length, value | length, body
//
// Numbers are unsigned varints. The body ends the envelope. The first line may be a trace context, see [WithTrace].
const (
	envelopeVersion  = 1
	maxHeaderLines   = 256
	maxEnvelopeBytes = 64 << 10 // of all names and values
)

// ErrEnvelope: the stored bytes are not an envelope. The answer is record-unreadable.
var ErrEnvelope = errors.New("server: unreadable envelope")

// A Line is one line of an answer's headers.
type Line struct{ Name, Value string }

// EncodeEnvelope returns the envelope of an answer with these headers and body. It
// returns false if the headers are beyond the limits.
func EncodeEnvelope(lines []Line, body []byte) ([]byte, bool) {
	size := 0
	for _, l := range lines {
		if !validLine(l) {
			return nil, false
		}
		size += len(l.Name) + len(l.Value)
	}
	if len(lines) > maxHeaderLines || size > maxEnvelopeBytes {
		return nil, false
	}
	b := make([]byte, 0, 1+size+len(body)+binary.MaxVarintLen64*(2+2*len(lines)))
	b = append(b, envelopeVersion)
	b = binary.AppendUvarint(b, uint64(len(lines)))
	for _, l := range lines {
		b = append(binary.AppendUvarint(b, uint64(len(l.Name))), l.Name...)
		b = append(binary.AppendUvarint(b, uint64(len(l.Value))), l.Value...)
	}
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...), true
}

// DecodeEnvelope is the inverse of [EncodeEnvelope]. It returns [ErrEnvelope] for other
// bytes, and for nil. The body shares b's memory. A trace context is not among the lines: [TraceOf] returns it.
func DecodeEnvelope(b []byte) (lines []Line, body []byte, err error) {
	d := envelopeReader{rest: b}
	if version := d.bytes(1); d.bad || version[0] != envelopeVersion {
		return nil, nil, ErrEnvelope
	}
	n := d.number()
	if n > 0 {
		if _, found := d.trace(); found {
			n--
		}
	}
	if d.bad || n > maxHeaderLines {
		return nil, nil, ErrEnvelope
	}
	size := 0
	lines = make([]Line, 0, n)
	for range n {
		l := Line{Name: string(d.field()), Value: string(d.field())}
		if size += len(l.Name) + len(l.Value); d.bad || size > maxEnvelopeBytes || !validLine(l) || l.Name == traceName {
			return nil, nil, ErrEnvelope
		}
		lines = append(lines, l)
	}
	if body = d.field(); d.bad || len(d.rest) > 0 {
		return nil, nil, ErrEnvelope
	}
	return lines, body, nil
}

// An envelopeReader reads from rest until the first error; after that it reads
// zeros.
type envelopeReader struct {
	rest []byte
	bad  bool
}

func (e *envelopeReader) number() uint64 {
	n, size := binary.Uvarint(e.rest)
	if size <= 0 {
		e.bad, e.rest = true, nil
		return 0
	}
	e.rest = e.rest[size:]
	return n
}

func (e *envelopeReader) field() []byte { return e.bytes(e.number()) }

func (e *envelopeReader) bytes(n uint64) []byte {
	if e.bad || n > uint64(len(e.rest)) {
		e.bad, e.rest = true, nil
		return nil
	}
	field := e.rest[:n:n]
	e.rest = e.rest[n:]
	return field
}

// validLine reports whether a stored line can be sent: a record that was
// tampered with must not split an answer in two.
func validLine(l Line) bool {
	if !IsToken(l.Name) || textproto.CanonicalMIMEHeaderKey(l.Name) != l.Name {
		return false
	}
	for i := range len(l.Value) {
		if c := l.Value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// IsToken reports whether s is a token of RFC 9110 section 5.6.2.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
