package childkey

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

const (
	// MaxDiscriminators is how many discriminators a child, and how many parts
	// a parent from business ids, can have.
	MaxDiscriminators = 8
	// MaxDiscriminatorBytes is the length of the longest of them.
	MaxDiscriminatorBytes = 256
)

// The first element of each tuple keeps the kinds of key apart. It also keeps
// a later version of a kind apart from this one.
const (
	domainChild  = "childkey/v1"
	domainKeyed  = "childkey/v1-hmac"
	domainParent = "parentkey/v1"
	domainHop    = "hopkey/v1"
)

// The netstrings with which the tuples of all children and of all hop keys begin.
const (
	childStart = "11:" + domainChild + ","
	hopStart   = "9:" + domainHop + ","
)

// maxPunctuation is what a netstring has around an element: at most three digits
// and two marks.
const maxPunctuation = 5

// maxTupleBytes is the length of the longest tuple. A buffer of this size on the
// stack makes derivation free of allocations for every legal input.
const maxTupleBytes = len("16:"+domainKeyed+",") + 3*MaxNameBytes + MaxKeyBytes + 4*maxPunctuation +
	len("1:8,") + MaxDiscriminators*(MaxDiscriminatorBytes+maxPunctuation)

// sumTuple is not inlined: it takes a tenth of a derivation to clear its buffer.
//
//go:noinline
func sumTuple(head, tail []string) Hash {
	var buf [maxTupleBytes]byte
	return sha256.Sum256(appendTuple(buf[:0], head, tail))
}

// appendTuple appends the netstrings of head, of the number of elements in
// tail, and of tail. Whatever bytes the elements hold, different (head, tail)
// give different bytes as long as heads are of one length: the tuple can be
// parsed back.
func appendTuple(b []byte, head, tail []string) []byte {
	for _, s := range head {
		b = appendNetstring(b, s)
	}
	return appendList(b, tail)
}

// appendList appends the netstring of the number of elements, of which there are
// at most [MaxDiscriminators], and that of each.
func appendList(b []byte, list []string) []byte {
	b = append(b, '1', ':', '0'+byte(len(list)), ',')
	for _, s := range list {
		b = appendNetstring(b, s)
	}
	return b
}

func appendNetstring(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 10:
		b = append(b, '0'+byte(n), ':')
	case n < 100:
		b = append(b, '0'+byte(n/10), '0'+byte(n%10), ':')
	default:
		b = append(strconv.AppendInt(b, int64(n), 10), ':')
	}
	return append(append(b, s...), ',')
}

// CheckDiscriminators returns nil if [Derive] takes these discriminators;
// otherwise its error wraps [ErrEmpty], [ErrTooLong] or [ErrTooMany].
func CheckDiscriminators(discriminators ...string) error {
	return checkList("discriminator", discriminators)
}

// checkList checks discriminators or parts; what names them in the error.
func checkList(what string, list []string) error {
	if len(list) > MaxDiscriminators {
		return fmt.Errorf("%w: %d %ss, at most %d", ErrTooMany, len(list), what, MaxDiscriminators)
	}
	for i, s := range list {
		switch {
		case s == "":
			return fmt.Errorf("%w: %s %d", ErrEmpty, what, i+1)
		case len(s) > MaxDiscriminatorBytes:
			return fmt.Errorf("%w: %s %d of %d bytes, at most %d", ErrTooLong, what, i+1, len(s), MaxDiscriminatorBytes)
		}
	}
	return nil
}
