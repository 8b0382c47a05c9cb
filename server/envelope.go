package server

import (
	"encoding/binary"
	"errors"
)

// The envelope: how an HTTP answer's headers and body are stored.
//
//	version (1 byte, 1) | number of lines | per line: length, name, length, value | length, body
//
// Numbers are unsigned varints. Nothing follows the body.
const (
	envelopeVersion  = 1
	maxHeaderLines   = 256
	maxEnvelopeBytes = 64 << 10 // of all names and values
)

// errEnvelope: stored bytes are no envelope. The answer is record-unreadable.
var errEnvelope = errors.New("server: unreadable envelope")

// encodeEnvelope returns false if the headers are beyond the limits.
func encodeEnvelope(lines []headerLine, body []byte) ([]byte, bool) {
	size := 0
	for _, l := range lines {
		if !validLine(l) {
			return nil, false
		}
		size += len(l.name) + len(l.value)
	}
	if len(lines) > maxHeaderLines || size > maxEnvelopeBytes {
		return nil, false
	}
	b := make([]byte, 0, 1+size+len(body)+binary.MaxVarintLen64*(2+2*len(lines)))
	b = append(b, envelopeVersion)
	b = binary.AppendUvarint(b, uint64(len(lines)))
	for _, l := range lines {
		b = append(binary.AppendUvarint(b, uint64(len(l.name))), l.name...)
		b = append(binary.AppendUvarint(b, uint64(len(l.value))), l.value...)
	}
	b = binary.AppendUvarint(b, uint64(len(body)))
	return append(b, body...), true
}

// decodeEnvelope reads what encodeEnvelope wrote; it returns [errEnvelope] for
// anything else, nil included. The body shares b's memory.
func decodeEnvelope(b []byte) (lines []headerLine, body []byte, err error) {
	d := envelopeReader{rest: b}
	if version := d.bytes(1); d.bad || version[0] != envelopeVersion {
		return nil, nil, errEnvelope
	}
	n := d.number()
	if d.bad || n > maxHeaderLines {
		return nil, nil, errEnvelope
	}
	size := 0
	for range n {
		l := headerLine{name: string(d.field()), value: string(d.field())}
		if size += len(l.name) + len(l.value); d.bad || size > maxEnvelopeBytes || !validLine(l) {
			return nil, nil, errEnvelope
		}
		lines = append(lines, l)
	}
	if body = d.field(); d.bad || len(d.rest) > 0 {
		return nil, nil, errEnvelope
	}
	return lines, body, nil
}

// An envelopeReader reads from rest until something is bad; then it reads
// zeros.
type envelopeReader struct {
	rest []byte
	bad  bool
}

func (d *envelopeReader) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *envelopeReader) field() []byte { return d.bytes(d.number()) }

func (d *envelopeReader) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	field := d.rest[:n:n]
	d.rest = d.rest[n:]
	return field
}
