package record

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without the lengths these requests would have the same bytes.
func TestFingerprint_boundaries(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, (&Subject{Method: "POST", Path: "/a", Query: "bc"}).fingerprint(PlainVersion, nil),
		(&Subject{Method: "POST", Path: "/ab", Query: "c"}).fingerprint(PlainVersion, nil))
}

func FuzzFingerprint(f *testing.F) {
	f.Add("POST", "/a", "bc", "b", "POST", "/ab", "c", "b")
	f.Add("POST", "/a", "", "b", "POST", "/a", "b", "")
	f.Fuzz(func(t *testing.T, m1, p1, q1, b1, m2, p2, q2, b2 string) {
		one := Subject{Method: m1, Path: p1, Query: q1, Body: []byte(b1)}
		two := Subject{Method: m2, Path: p2, Query: q2, Body: []byte(b2)}
		if same, want := one.fingerprint(PlainVersion, nil) == two.fingerprint(PlainVersion, nil), reflect.DeepEqual(one, two); same != want {
			t.Errorf("fingerprints equal = %v, want %v: %+v %+v", same, want, one, two)
		}
	})
}
