package record

import (
	"encoding/hex"
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
		if same, want := one.fingerprint(1, nil) == two.fingerprint(1, nil), reflect.DeepEqual(one, two); same != want {
			t.Errorf("fingerprints of version 1 equal = %v, want %v: %+v %+v", same, want, one, two)
		}
		if same, want := one.fingerprint(PlainVersion, nil) == two.fingerprint(PlainVersion, nil), reflect.DeepEqual(one.normalize(), two.normalize()); same != want {
			t.Errorf("fingerprints equal = %v, want %v: %+v %+v", same, want, one, two)
		}
	})
}

// Rows with a fingerprint of version 1 are compared for as long as they live, so its bytes stay. So do those of version 255.
func TestFingerprint_versions(t *testing.T) {
	t.Parallel()
	s := Subject{Scope: "s", Key: "k", Method: "POST", Path: "/a%37", Query: "b=1&a=2", MediaType: "application/json; charset=utf-8", Body: []byte("x")}
	for version, want := range map[uint8]string{
		1:   "c9e7ed813baa910aa5ba82ab7d0b7838d7b8212e2aa0f782dde2eba042fa2759",
		255: "f6f3dbf130f511b1e9b7f31b2e14c155d109c0df7e107c24c6d01dfef967aac2",
	} {
		fp, ok := new(Fingerprinter).Of(&s, version)
		require.True(t, ok)
		require.Equal(t, want, hex.EncodeToString(fp.Sum[:]), version)
	}
}

func TestSubject_normalize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		one, two Subject
		same     bool
	}{
		{"an escaped digit", Subject{Path: "/o/%37"}, Subject{Path: "/o/7"}, true},
		{"an escaped tilde", Subject{Path: "/%7euser"}, Subject{Path: "/~user"}, true},
		{"digits of an escape", Subject{Path: "/a%2fb"}, Subject{Path: "/a%2Fb"}, true},
		{"an escaped slash is no slash", Subject{Path: "/a%2Fb"}, Subject{Path: "/a/b"}, false},
		{"an escaped percent sign is not the start of an escape", Subject{Path: "/%2537"}, Subject{Path: "/%37"}, false},
		{"no escape", Subject{Path: "/%3"}, Subject{Path: "/%"}, false},
		{"another path", Subject{Path: "/o/7"}, Subject{Path: "/o/8"}, false},
		{"order of the query", Subject{Query: "a=1&b=2"}, Subject{Query: "b=2&a=1"}, true},
		{"escaped name in the query", Subject{Query: "%61=1&b=2"}, Subject{Query: "b=2&a=1"}, true},
		{"order of one name", Subject{Query: "a=1&a=2"}, Subject{Query: "a=2&a=1"}, false},
		{"a parameter twice", Subject{Query: "a=1&a=1"}, Subject{Query: "a=1"}, false},
		{"an escaped ampersand", Subject{Query: "a=1%26b=2"}, Subject{Query: "a=1&b=2"}, false},
		{"charset utf-8", Subject{MediaType: "application/json; charset=utf-8"}, Subject{MediaType: "application/json"}, true},
		{"charset UTF-8", Subject{MediaType: "text/csv; charset=UTF-8; header=present"}, Subject{MediaType: "text/csv; header=present"}, true},
		{"another charset", Subject{MediaType: "application/json; charset=latin1"}, Subject{MediaType: "application/json"}, false},
		{"the body of an undo", Subject{Cancels: "f", Body: []byte("{}")}, Subject{Cancels: "f", Body: []byte(`{"output":1}`)}, true},
		{"another body", Subject{Body: []byte("{}")}, Subject{Body: []byte("[]")}, false},
		{"another type", Subject{MediaType: "text/plain; charset=utf-8"}, Subject{MediaType: "text/csv"}, false},
	} {
		require.Equal(t, tt.same, reflect.DeepEqual(tt.one.normalize(), tt.two.normalize()), tt.name)
	}
}
