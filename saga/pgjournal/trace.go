package pgjournal

import "errors"

// formTraced begins a stored input that has a trace context: its length in a byte, its text and the input follow. It is
// a form as in codec.go, inside the sealed value. So a saga without a trace context stores no byte for it, and
// the statements do not know of it.
const formTraced = 4

// addTrace returns the input with its trace context, as it is sealed. An input that begins with the form's own byte
// gets an empty trace context.
func addTrace(trace string, input []byte) []byte {
	if trace == "" && (len(input) == 0 || input[0] != formTraced) {
		return input
	}
	b := make([]byte, 0, 2+len(trace)+len(input))
	b = append(b, formTraced, byte(len(trace)))
	return append(append(b, trace...), input...)
}

var errTrace = errors.New("input with a trace context that is cut off")

// splitTrace is the inverse of addTrace.
func splitTrace(stored []byte) (trace string, input []byte, err error) {
	if len(stored) == 0 || stored[0] != formTraced {
		return "", stored, nil
	}
	if len(stored) < 2 || len(stored)-2 < int(stored[1]) {
		return "", nil, errTrace
	}
	end := 2 + int(stored[1])
	return string(stored[2:end]), stored[end:], nil
}

// isVisible reports whether s has only visible ASCII characters.
func isVisible(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
