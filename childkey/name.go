package childkey

import "fmt"

// MaxNameBytes is the length of the longest name.
const MaxNameBytes = 128

// CheckName returns nil if name can be a service, an operation, a namespace or
// a key id. Otherwise its error wraps [ErrEmpty], [ErrTooLong] or [ErrBadName].
// A name has this form, which the methods of gRPC have too (pkg.Svc/Method):
//
//	[A-Za-z0-9][A-Za-z0-9._/-]{0,127}
//
// Names are compared byte by byte, never folded.
func CheckName(name string) error { return checkName("name", name) }

// checkName is CheckName; what names the field in the error.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: %s", ErrEmpty, what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrTooLong, what, len(name), MaxNameBytes)
	}
	for i := range len(name) {
		if !nameByte(name[i], i == 0) {
			return badName(what, name, i)
		}
	}
	return nil
}

// badName is the error for a name that cannot have its byte at offset i.
func badName(what, name string, i int) error {
	return fmt.Errorf("%w: %s %q: byte 0x%02x at offset %d; a name has letters, digits and ._/-, and begins with a letter or a digit",
		ErrBadName, what, name, name[i], i)
}

func nameByte(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	case c == '.', c == '_', c == '/', c == '-':
		return !first
	}
	return false
}
