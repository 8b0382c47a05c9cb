package natsstore

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/server/store"
)

// A space is one part of the bucket. Its name is the first token of the bucket's keys.
type space string

const (
	keySpace   space = "key"   // key.<id>: a key's record, on which every decision is made
	needSpace  space = "need"  // need.<id>: the key may need a person
	partSpace  space = "part"  // part.<id>.<ref>.<n>: a piece of a large answer
	auditSpace space = "audit" // audit.<id>.<nonce>: a line of the audit log
)

// A bucket names the subjects of a NATS key-value bucket: stream KV_<name>, subjects $KV.<name>.<key>.
type bucket string

func (b bucket) stream() string { return "KV_" + string(b) }

func (b bucket) subjects() string { return "$KV." + string(b) + ".>" }

// of returns the subject of a key in a space.
func (b bucket) of(s space, id store.ID, more ...string) string {
	return strings.Join(append([]string{"$KV", string(b), string(s), hex.EncodeToString(id[:])}, more...), ".")
}

// all returns the filter for a space.
func (b bucket) all(s space) string { return "$KV." + string(b) + "." + string(s) + ".>" }

func (b bucket) part(id store.ID, ref string, n int) string {
	return b.of(partSpace, id, ref, strconv.Itoa(n))
}

// idOf returns the ID in a subject that [bucket.of] made.
func idOf(subject string) (id store.ID, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 4 {
		return id, false
	}
	digits, err := hex.DecodeString(tokens[3])
	if err != nil || len(digits) != len(id) {
		return id, false
	}
	return store.ID(digits), true
}
