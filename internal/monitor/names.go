package monitor

import (
	"errors"
	"strconv"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes is the length of the longest name.
const MaxNameBytes = 128

var (
	errNotText = errors.New("is not printable UTF-8")
	errTooLong = errors.New("is longer than " + strconv.Itoa(MaxNameBytes) + " bytes")
)

// Names gives the owners of metrics in one process their names: the label by which their numbers are told apart. The zero
// Names is ready to use. It is safe for concurrent use.
type Names struct{ unnamed atomic.Int64 }

// Choose returns name, or the next of "1", "2" and so on if name is empty. It returns an error if name is longer than
// [MaxNameBytes], or is not printable UTF-8.
func (n *Names) Choose(name string) (string, error) {
	switch {
	case name == "":
		return strconv.FormatInt(n.unnamed.Add(1), 10), nil
	case len(name) > MaxNameBytes:
		return "", errTooLong
	case !utf8.ValidString(name):
		return "", errNotText
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return "", errNotText
		}
	}
	return name, nil
}
