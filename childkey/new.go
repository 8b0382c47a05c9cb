package childkey

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/google/uuid"
)

// New returns a random parent key, a UUIDv4 (RFC 9562 section 5.4) with 122 bits from the
// system's random source. If that source fails, New returns an error wrapping [ErrRandom]
// and never a weaker key. It is safe for concurrent use.
//
// Make a parent key once per intent and keep it before the first call goes
// out: a process that starts over with another key does everything again.
// [FromParts] needs no keeping.
func New() (Key, error) { return newUUID(rand.Reader, uuid.NewRandomFromReader) }

// NewV7 returns a random parent key, a UUIDv7 (RFC 9562 section 5.7). Keys made
// later sort later, which some stores like in an index; and whoever sees the
// key learns the millisecond of its creation. Choose it only where nobody
// outside may mind, and where callees do not insist on version 4. Its errors
// are [New]'s. It is safe for concurrent use.
func NewV7() (Key, error) { return newUUID(rand.Reader, uuid.NewV7FromReader) }

// MustNew is [New] for programs that cannot go on without a key. It panics if
// the random source fails.
func MustNew() Key { return must(New()) }

// MustParse is [Parse] for keys in the source of a program. It panics if text is not a key.
func MustParse(text string) Key { return must(Parse(text)) }

func newUUID(random io.Reader, read func(io.Reader) (uuid.UUID, error)) (Key, error) {
	id, err := read(random)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrRandom, err)
	}
	return quote(id.String()), nil
}

func must(key Key, err error) Key {
	if err != nil {
		panic(err) //nolint:forbidigo // what Must... promises
	}
	return key
}
