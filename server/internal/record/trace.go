package record

import "encoding/binary"

// traceName is the name of the line with the trace context of the run that made an answer. It is the first
// line, and never sent: an answer's own headers of this name are not stored. So an envelope without a trace
// context has no byte for it, and the format is the same.
const traceName = "Traceparent"

// maxTraceBytes bounds the text of a trace context.
const maxTraceBytes = 255

// WithTrace returns the envelope with a trace context. It returns an envelope unchanged if it has one already, if
// trace is empty or malformed, or if it is no envelope.
func WithTrace(envelope []byte, trace string) []byte {
	if trace == "" || len(trace) > maxTraceBytes || !visible(trace) || TraceOf(envelope) != "" {
		return envelope
	}
	d := envelopeReader{rest: envelope}
	version := d.bytes(1)
	n := d.number()
	if d.bad || version[0] != envelopeVersion {
		return envelope
	}
	b := make([]byte, 0, len(envelope)+len(traceName)+len(trace)+4)
	b = append(b, envelopeVersion)
	b = binary.AppendUvarint(b, n+1)
	b = append(binary.AppendUvarint(b, uint64(len(traceName))), traceName...)
	b = append(binary.AppendUvarint(b, uint64(len(trace))), trace...)
	return append(b, d.rest...)
}

// TraceOf returns the trace context of an envelope; "" if there is none.
func TraceOf(envelope []byte) string {
	d := envelopeReader{rest: envelope}
	if version := d.bytes(1); d.bad || version[0] != envelopeVersion || d.number() == 0 {
		return ""
	}
	trace, _ := d.trace()
	return trace
}

// trace reads the trace context, if that is the next line.
func (e *envelopeReader) trace() (text string, found bool) {
	next := *e
	name, value := next.field(), next.field()
	if next.bad || string(name) != traceName || len(value) > maxTraceBytes {
		return "", false
	}
	if text = string(value); !visible(text) {
		return "", false
	}
	*e = next
	return text, true
}

// visible reports whether s has only visible ASCII characters.
func visible(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
