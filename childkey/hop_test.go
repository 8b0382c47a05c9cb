package childkey_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// Two tenants choose the same key. Each one's calls have keys of their own.
func ExampleHop() {
	key := childkey.MustParse("order-1")
	one, _ := childkey.Hop("t1", "", key)
	two, _ := childkey.Hop("t2", "", key)
	fmt.Println(one)
	charge, _ := childkey.Derive(one, "payment", "charge")
	other, _ := childkey.Derive(two, "payment", "charge")
	fmt.Println(charge == other)
	// Output:
	// 0803962ca4763aed7158754a6ea20d9f
	// false
}

func TestHop_badInput(t *testing.T) {
	t.Parallel()
	key := childkey.MustParse("order-1")
	tests := []struct {
		name, scope, namespace string
		key                    childkey.Key
		want                   error
	}{
		{"shortest", "", "", key, nil},
		{"longest", strings.Repeat("s", childkey.MaxScopeBytes), strings.Repeat("n", 263), key, nil},
		{"scope of any text", "tenant/\u20ac, \"x\"\n", "", key, nil},
		{"namespace of an inbox", "inbox", "billing:inbox/mailer", key, nil},
		{"zero key", "t", "n", childkey.Key{}, childkey.ErrEmpty},
		{"long scope", strings.Repeat("s", childkey.MaxScopeBytes+1), "", key, childkey.ErrTooLong},
		{"scope is not UTF-8", "t\xff", "", key, childkey.ErrBadScope},
		{"scope has a NUL", "t\x00", "", key, childkey.ErrBadScope},
		{"long namespace", "t", strings.Repeat("n", 264), key, childkey.ErrTooLong},
		{"namespace begins with a slash", "t", "/n", key, childkey.ErrBadName},
		{"namespace begins with a colon", "t", ":n", key, childkey.ErrBadName},
		{"namespace has a space", "t", "a b", key, childkey.ErrBadName},
		{"namespace has a comma", "t", "a,b", key, childkey.ErrBadName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := childkey.Hop(tt.scope, tt.namespace, tt.key)
			if !errors.Is(err, tt.want) || got.IsZero() != (tt.want != nil) {
				t.Errorf("Hop = %q, %v, want %v", got.String(), err, tt.want)
			}
			if err != nil && tt.scope != "t" {
				require.NotContains(t, err.Error(), tt.scope, "the scope may name a person")
			}
		})
	}
}

// A hop key differs from the child and the parent of the same elements.
func TestHop_isAKindOfItsOwn(t *testing.T) {
	t.Parallel()
	hop, err := childkey.Hop("a", "b", childkey.MustParse("c"))
	require.NoError(t, err)
	child, err := childkey.Derive(childkey.MustParse("a"), "b", "c")
	require.NoError(t, err)
	parent, err := childkey.FromParts("a", "b", "c")
	require.NoError(t, err)
	require.NotEqual(t, hop, child)
	require.NotEqual(t, hop, parent)
	again, err := childkey.Hop("a", "b", hop)
	require.NoError(t, err)
	require.NotEqual(t, hop, again, "the next service's hop key")
}

func TestHop_allocations(t *testing.T) { // not parallel: it counts for the whole process
	key := childkey.MustParse(strings.Repeat("k", 36))
	require.InDelta(t, 1, testing.AllocsPerRun(100, func() {
		_, _ = childkey.Hop("tenant-17/ann", "payments", key)
	}), 0)
}

// FuzzHop_injective compares the keys of two triples whose letters may be the
// same while their ends are elsewhere.
func FuzzHop_injective(f *testing.F) {
	f.Add("t1", "", "order-1", "t2", "", "order-1")
	f.Add("t", "ab", "c", "t", "a", "bc")           // without the lengths
	f.Add("ta", "b", "c", "t", "ab", "c")           // without the lengths
	f.Add("t,1:n", "n", "k", "t", "n", "k")         // a netstring inside
	f.Add("t", "inbox/c", "k", "t", "inbox:c", "k") // another separator
	f.Add("inbox", "a:inbox/c", "k", "inbox", "a", "k")
	f.Add("", "n", "k", "n", "", "k")
	f.Fuzz(func(t *testing.T, s1, n1, k1, s2, n2, k2 string) {
		one, two := hopOf(s1, n1, k1), hopOf(s2, n2, k2)
		if one.IsZero() || two.IsZero() {
			return // a limit refused it
		}
		if same := s1 == s2 && n1 == n2 && unquoted(k1) == unquoted(k2); (one == two) != same {
			t.Fatalf("(%q, %q, %q) and (%q, %q, %q): equal = %v, want %v", s1, n1, k1, s2, n2, k2, !same, same)
		}
	})
}

func hopOf(scope, namespace, text string) childkey.Key {
	key, err := childkey.Parse(text)
	if err != nil {
		return childkey.Key{}
	}
	hop, err := childkey.Hop(scope, namespace, key)
	if err != nil {
		return childkey.Key{}
	}
	return hop
}

func unquoted(text string) string {
	return strings.Trim(text, `"`)
}
