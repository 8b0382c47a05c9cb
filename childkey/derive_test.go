package childkey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

var (
	parent  = childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")
	longest = strings.Repeat("n", childkey.MaxNameBytes)
)

// badTuples is what every way to derive a child must refuse.
var badTuples = []struct {
	name               string
	parent             childkey.Key
	service, operation string
	discriminators     []string
	want               error
}{
	{"zero parent", childkey.Key{}, "s", "o", nil, childkey.ErrEmpty},
	{"empty service", parent, "", "o", nil, childkey.ErrEmpty},
	{"empty operation", parent, "s", "", nil, childkey.ErrEmpty},
	{"long service", parent, longest + "n", "o", nil, childkey.ErrTooLong},
	{"long operation", parent, "s", longest + "n", nil, childkey.ErrTooLong},
	{"colon in service", parent, "a:b", "o", nil, childkey.ErrBadName},
	{"colon in operation", parent, "s", "a:b", nil, childkey.ErrBadName},
	{"space in service", parent, "a b", "o", nil, childkey.ErrBadName},
	{"space after operation", parent, "s", "o ", nil, childkey.ErrBadName},
	{"NUL in service", parent, "s\x00", "o", nil, childkey.ErrBadName},
	{"LF in operation", parent, "s", "o\n", nil, childkey.ErrBadName},
	{"service not ASCII", parent, "склад", "o", nil, childkey.ErrBadName},
	{"operation not UTF-8", parent, "s", "\xff", nil, childkey.ErrBadName},
	{"slash first", parent, "/s", "o", nil, childkey.ErrBadName},
	{"hyphen first", parent, "s", "-o", nil, childkey.ErrBadName},
	{"nine discriminators", parent, "s", "o", slices.Repeat([]string{"d"}, 9), childkey.ErrTooMany},
	{"long discriminator", parent, "s", "o", []string{"d", strings.Repeat("d", 257)}, childkey.ErrTooLong},
	{"empty discriminator", parent, "s", "o", []string{"d", ""}, childkey.ErrEmpty},
}

func TestDerive_badInput(t *testing.T) {
	t.Parallel()
	keyed, err := childkey.NewKeyed("k1", make([]byte, 16))
	require.NoError(t, err)
	for _, tt := range badTuples {
		ways := map[string]func() (childkey.Key, error){
			"Derive": func() (childkey.Key, error) {
				return childkey.Derive(tt.parent, tt.service, tt.operation, tt.discriminators...)
			},
			"Keyed": func() (childkey.Key, error) {
				return keyed.Derive(tt.parent, tt.service, tt.operation, tt.discriminators...)
			},
			"Legacy": func() (childkey.Key, error) {
				if tt.discriminators != nil {
					return childkey.Key{}, tt.want // the formula has none
				}
				return childkey.Legacy(tt.parent, tt.service, tt.operation)
			},
		}
		for way, derive := range ways {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				t.Parallel()
				got, err := derive()
				if !errors.Is(err, tt.want) || !got.IsZero() {
					t.Errorf("got %q, error %v, want %v", got.String(), err, tt.want)
				}
			})
		}
	}
}

func TestDerive_errorHoldsNoSecret(t *testing.T) {
	t.Parallel()
	key := childkey.MustParse("secret-order")
	for _, tt := range badTuples {
		_, err := childkey.Derive(key, tt.service, tt.operation, append(slices.Clone(tt.discriminators), "card-number", "")...)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret-order")
		require.NotContains(t, err.Error(), "card-number")
	}
}

func TestDerive_limits(t *testing.T) {
	t.Parallel()
	ds := slices.Repeat([]string{strings.Repeat("\xff", childkey.MaxDiscriminatorBytes)}, childkey.MaxDiscriminators)
	key, err := childkey.Derive(childkey.MustParse(strings.Repeat("k", childkey.MaxKeyBytes)), longest, longest, ds...)
	require.NoError(t, err)
	require.Len(t, key.String(), 32)
	require.NoError(t, childkey.CheckDiscriminators(ds...))
	for _, name := range []string{"0", "shop.v1.Payments/Charge", "a_b-c.d/e", longest} {
		require.NoError(t, childkey.CheckName(name))
	}
}

// Tuples that a careless encoding takes for one another.
func TestDerive_siblingsDiffer(t *testing.T) {
	t.Parallel()
	tuples := [][]string{
		{"payment", "charge"},
		{"charge", "payment"},
		{"Payment", "charge"},
		{"paymentc", "harge"},
		{"payment", "charge", "1"},
		{"payment", "charge", "0"},
		{"payment", "charge", "1", "2"},
		{"payment", "charge", "2", "1"},
		{"payment", "charge", "12"},
		{"payment", "charge", "12", "3"},
		{"payment", "charge", "1", "23"},
		{"payment", "charge", "1,2", "3"},
		{"payment", "charge", "1", "2,3"},
		{"payment", "charge", "1:2,"},
		{"payment", "charge", "1,2"},
		{"payment", "charge", "caf\u00e9"},
		{"payment", "charge", "cafe\u0301"},
	}
	seen := map[childkey.Key][]string{}
	for _, tuple := range tuples {
		key, err := childkey.Derive(parent, tuple[0], tuple[1], tuple[2:]...)
		require.NoError(t, err)
		require.NotContains(t, seen, key, "%q", tuple)
		seen[key] = tuple
	}
}

func TestDerive_orderOfCallsDoesNotMatter(t *testing.T) {
	t.Parallel()
	plan := []string{"a", "b", "c", "d"}
	derive := func(steps []string) map[string]childkey.Key {
		keys := map[string]childkey.Key{}
		for _, step := range steps {
			key, err := childkey.Derive(parent, "inventory", "reserve", step)
			require.NoError(t, err)
			keys[step] = key
		}
		return keys
	}
	forward := derive(plan)
	slices.Reverse(plan)
	require.Equal(t, forward, derive(plan))
}

func TestDerive_parentAsReceived(t *testing.T) {
	t.Parallel()
	bare, err := childkey.Derive(childkey.MustParse("order-42"), "payment", "charge")
	require.NoError(t, err)
	quoted, err := childkey.Derive(childkey.MustParse(`"order-42"`), "payment", "charge")
	require.NoError(t, err)
	require.Equal(t, bare.String(), quoted.String())
}

// Not parallel: AllocsPerRun counts what the whole process allocates.
func TestDerive_allocations(t *testing.T) {
	ds := slices.Repeat([]string{strings.Repeat("d", childkey.MaxDiscriminatorBytes)}, childkey.MaxDiscriminators)
	for _, ds := range [][]string{nil, {"sku", "7"}, ds} {
		got := testing.AllocsPerRun(100, func() { _, _ = childkey.Derive(parent, "payment", "charge", ds...) })
		if got > 1 {
			t.Errorf("Derive with %d discriminators: %v allocations, want at most 1", len(ds), got)
		}
	}
}

// No input panics, and what is accepted is what the limits allow.
func FuzzDerive(f *testing.F) {
	f.Add("p", "s", "o", "d", 1)
	f.Add("p", "a:b", "o", "", 1)
	f.Add("p", "s", "o", "d", 9)
	f.Add("", "", "", "", 0)
	f.Add("p", strings.Repeat("n", 129), "o", strings.Repeat("d", 257), 1)
	f.Fuzz(func(t *testing.T, text, service, operation, discriminator string, count int) {
		key, keyErr := childkey.Parse(text)
		ds := slices.Repeat([]string{discriminator}, min(max(count, 0), 10))
		child, err := childkey.Derive(key, service, operation, ds...)
		legal := keyErr == nil && childkey.CheckName(service) == nil && childkey.CheckName(operation) == nil && childkey.CheckDiscriminators(ds...) == nil
		if (err == nil) != legal || child.IsZero() != (err != nil) {
			t.Fatalf("Derive = %q, %v; legal = %v", child.String(), err, legal)
		}
	})
}

// Short and long tuples are hashed by two functions: both sides of the border.
func TestDerive_longTuples(t *testing.T) {
	t.Parallel()
	one := childkey.MustParse("p")
	seen := make(map[childkey.Key]bool)
	for n := 1; n <= childkey.MaxDiscriminatorBytes; n++ {
		d := strings.Repeat("d", n)
		got, err := childkey.Derive(one, "s", "o", d)
		require.NoError(t, err)
		tuple := fmt.Sprintf("11:childkey/v1,1:p,1:s,1:o,1:1,%d:%s,", n, d)
		want := sha256.Sum256([]byte(tuple))
		require.Equal(t, hex.EncodeToString(want[:16]), got.String(), "%d bytes", n)
		require.False(t, seen[got])
		seen[got] = true
	}
}
