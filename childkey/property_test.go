package childkey_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// For more of it: go test ./childkey -run TestDerive_law -childkey.tuples 1000000.
var tuples = flag.Int("childkey.tuples", 100_000, "how many tuples TestDerive_law derives keys from")

// Two calls have the same key if and only if they are the same call. They come in pairs
// that differ in nothing but where one element ends and the next begins, with all that
// could separate elements in between, and are made from few letters.
func TestDerive_law(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) // the same calls each time
	calls := make(map[childkey.Key]call, *tuples)
	keys := make(map[string]childkey.Key, *tuples)
	for range *tuples / 2 {
		for _, c := range randomCalls(random) {
			key, err := childkey.Derive(childkey.MustParse(c.parent), c.service, c.operation, c.discriminators...)
			require.NoError(t, err, "%q", c)
			if other, ok := calls[key]; ok && !other.equal(c) {
				t.Fatalf("%q and %q have the same key", c, other)
			}
			if before, ok := keys[c.text()]; ok && before != key {
				t.Fatalf("%q has two keys, %q and %q", c, before.String(), key.String())
			}
			calls[key], keys[c.text()] = c, key
		}
	}
	require.Len(t, calls, len(keys))
	t.Logf("%d tuples, %d of them different", *tuples, len(keys))
}

// A call is what a child key is derived from.
type call struct {
	parent, service, operation string
	discriminators             []string
}

func (c call) equal(d call) bool {
	return c.parent == d.parent && c.service == d.service && c.operation == d.operation && slices.Equal(c.discriminators, d.discriminators)
}

// text is the call as one string, as Go would write it.
func (c call) text() string {
	var b []byte
	for _, element := range append([]string{c.parent, c.service, c.operation}, c.discriminators...) {
		b = strconv.AppendQuote(b, element)
	}
	return string(b)
}

// randomCalls returns two calls with the same letters in the same order.
func randomCalls(r *rand.Rand) [2]call {
	word := func() string { return randomText(r, 1, "a1") }
	first := call{parent: "p" + word(), service: "s" + word(), operation: "o" + word()}
	for range r.IntN(3) {
		first.discriminators = append(first.discriminators, randomText(r, 1, "a1:,/"))
	}
	second := first
	second.discriminators = slices.Clone(first.discriminators)
	x, y, z := word(), word(), word()
	switch r.IntN(4) {
	case 0:
		mark := pick(r, "", "/", ".", "-", "s")
		first.parent, first.service = x+mark+y, z
		second.parent, second.service = x, y+mark+z
	case 1:
		mark := pick(r, "", "/", ".", "-", "o")
		first.service, first.operation = x+mark+y, z
		second.service, second.operation = x, y+mark+z
	case 2:
		mark := pick(r, "", "/", ".", "-")
		first.operation, first.discriminators = x+mark+y, append(first.discriminators, z)
		second.operation, second.discriminators = x, append(second.discriminators, y+mark+z)
	default:
		mark := pick(r, "", ":", ",", ",:", "/", "1:", ",1:", ",2:", "\x00")
		first.discriminators = append(first.discriminators, x+mark+y, z)
		second.discriminators = append(second.discriminators, x, y+mark+z)
	}
	return [2]call{first, second}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// randomText returns up to four letters, and no fewer than that.
func randomText(r *rand.Rand, least int, letters string) string {
	text := make([]byte, least+r.IntN(5-least))
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}
