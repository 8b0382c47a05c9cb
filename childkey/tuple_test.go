package childkey_test

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestTuple_lengthsKeepElementsApart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, parent, service, want string
	}{
		{"colon in parent", "a:b", "c", "4131d7d88b59142829ba66cb91c4a0f1"},
		{"colon in service", "a", "b:c", "c93c41df1d4cd3a83cd44c5c7e4e6675"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key, err := childkey.Hex32.Key(childkey.SumTuple([]string{"childkey/v1", tt.parent, tt.service, "op"}, nil))
			require.NoError(t, err)
			require.Equal(t, tt.want, key.String())
		})
	}
}

func TestTuple_bytes(t *testing.T) {
	t.Parallel()
	got := childkey.AppendTuple(nil, []string{"childkey/v1", "p", "payment", "charge"}, []string{"sku", "\x00,"})
	require.Equal(t, "11:childkey/v1,1:p,7:payment,6:charge,1:2,3:sku,2:\x00,,", string(got))
}

func TestTuple_longestFitsTheBuffer(t *testing.T) {
	t.Parallel()
	name, ds := strings.Repeat("n", childkey.MaxNameBytes), slices.Repeat([]string{strings.Repeat("d", childkey.MaxDiscriminatorBytes)}, childkey.MaxDiscriminators)
	head := []string{"childkey/v1-hmac", name, strings.Repeat("k", childkey.MaxKeyBytes), name, name}
	require.Len(t, childkey.AppendTuple(nil, head, ds), childkey.MaxTupleBytes)
}

// parseTuple is the reader that nobody needs: that it can exist is what makes
// the encoding injective.
func parseTuple(b []byte, heads int) (head, tail []string, err error) {
	var items []string
	for len(b) > 0 {
		size, rest, ok := bytes.Cut(b, []byte(":"))
		n, convErr := strconv.Atoi(string(size))
		if !ok || convErr != nil || n < 0 || n >= len(rest) || rest[n] != ',' || strconv.Itoa(n) != string(size) {
			return nil, nil, errors.New("no netstring")
		}
		items, b = append(items, string(rest[:n])), rest[n+1:]
	}
	if len(items) < heads+1 || items[heads] != strconv.Itoa(len(items)-heads-1) {
		return nil, nil, errors.New("wrong count")
	}
	return items[:heads], items[heads+1:], nil
}

// Whoever knows the hash of a tuple can compute that of the tuple with padding
// and bytes of theirs behind. It is the hash of no tuple.
func TestTuple_extensionDoesNotParse(t *testing.T) {
	t.Parallel()
	head := []string{"childkey/v1", "p", "payment", "charge"}
	for _, tail := range [][]string{nil, {"1"}} {
		tuple := childkey.AppendTuple(nil, head, tail)
		padding := "\x80" + strings.Repeat("\x00", 55)
		for _, behind := range []string{"1:2,", "1:1,1:2,", padding, padding + "1:2,", ","} {
			_, _, err := parseTuple(append(slices.Clone(tuple), behind...), len(head))
			require.Error(t, err, "%q", behind)
		}
	}
}

func FuzzTuple_roundTrip(f *testing.F) {
	f.Add("parent", "payment", "charge", "", "")
	f.Add("a:b", "c", "op", "1:a,1:b,", ",")
	f.Add("", "", "", "", "\xff\x00")
	f.Fuzz(func(t *testing.T, parent, service, operation, d1, d2 string) {
		head := []string{"childkey/v1", parent, service, operation}
		for _, tail := range [][]string{{}, {d1}, {d1, d2}, {d1 + d2}} {
			gotHead, gotTail, err := parseTuple(childkey.AppendTuple(nil, head, tail), len(head))
			if err != nil || !slices.Equal(gotHead, head) || !slices.Equal(gotTail, tail) {
				t.Fatalf("parsed back (%q, %q, %v), want (%q, %q)", gotHead, gotTail, err, head, tail)
			}
		}
	})
}

func FuzzTuple_injective(f *testing.F) {
	f.Add("p", "pay", "ment", "", "p", "paym", "ent", "")           // same bytes, were it not for the lengths
	f.Add("a:b", "c", "op", "", "a", "b:c", "op", "")               // the same with a separator
	f.Add("p,s", "o", "x", "", "p", "s,o", "x", "")                 // and with the one between elements
	f.Add("p,:s", "o", "x", "", "p", "s,:o", "x", "")               // a netstring's punctuation without its length
	f.Add("p", "s", "o1:", "x", "p", "s", "o", "1:x")               // length of one, bytes of the other
	f.Add("p", "s", "o", "ab,1:c", "p", "s", "o", "ab")             // a netstring inside
	f.Add("p", "s", "o,1:1,1:x", "y", "p", "s", "o", "1:x,1:1,1:y") // a count inside
	f.Fuzz(func(t *testing.T, p1, s1, o1, d1, p2, s2, o2, d2 string) {
		a := childkey.AppendTuple(nil, []string{p1, s1, o1}, []string{d1})
		b := childkey.AppendTuple(nil, []string{p2, s2, o2}, []string{d2})
		same := p1 == p2 && s1 == s2 && o1 == o2 && d1 == d2
		if bytes.Equal(a, b) != same {
			t.Fatalf("%q and %q: equal = %v, want %v", a, b, !same, same)
		}
		// Another number of discriminators is another call.
		none, two := childkey.AppendTuple(nil, []string{p2, s2, o2}, nil), childkey.AppendTuple(nil, []string{p2, s2, o2}, []string{d1, d2})
		if bytes.Equal(a, none) || bytes.Equal(a, two) || bytes.Equal(none, two) {
			t.Fatalf("%q, %q and %q are not all different", a, none, two)
		}
	})
}
