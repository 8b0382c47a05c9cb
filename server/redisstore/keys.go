package redisstore

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/server/store"
)

// buckets is the number of hash tags. A key and the indexes that name it have the same tag, and so are in one hash
// slot: a script can change them together, on a cluster too. A list asks every bucket. The number is fixed, because
// all processes must agree on it.
const buckets = 256

// A bucket has the names of the indexes of one hash tag.
type bucket struct {
	tag string // with the prefix
	// The indexes are sorted sets of IDs. Final and answers are ordered by the time at which they are due, the others
	// by CreatedAt. Created has all records.
	active, unknown, quarantined, final, released, cancelled, letters, answers, created string

	audit string // a stream
}

func newBucket(prefix string, n int) bucket {
	tag := fmt.Sprintf("%s:{%02x}:", prefix, n)
	return bucket{
		tag: tag, active: tag + "active", unknown: tag + "unknown", quarantined: tag + "quarantined", final: tag + "final",
		released: tag + "released", cancelled: tag + "cancelled", letters: tag + "letters", answers: tag + "answers",
		created: tag + "created", audit: tag + "audit",
	}
}

func (b *bucket) record(id store.ID) string {
	var name strings.Builder
	name.Grow(len(b.tag) + 34)
	name.WriteString(b.tag)
	name.WriteString("k:")
	var digits [32]byte
	hex.Encode(digits[:], id[:])
	name.Write(digits[:])
	return name.String()
}

// move returns the keys of a script that moves a record: see script/record.lua.
func (b *bucket) move(id store.ID) []string {
	return []string{
		b.record(id), b.active, b.unknown, b.quarantined, b.final, b.released, b.cancelled, b.letters, b.answers, b.audit, b.created,
	}
}

// bucketOf returns the bucket of id: IDs are digests, so each bucket gets as many.
func (s *Store) bucketOf(id store.ID) *bucket { return &s.buckets[id[len(id)-1]] }
