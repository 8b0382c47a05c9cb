package journal

import "encoding/hex"

// A PlanHash is the digest of a plan: of the saga's name and version, and of
// its steps' names, kinds, operations and edges. A saga that was started with
// one plan is executed with no other.
type PlanHash [32]byte

// String returns its first 8 bytes in hex.
func (h PlanHash) String() string { return hex.EncodeToString(h[:8]) }

// A PlanRecord is a plan as a journal keeps it.
type PlanRecord struct {
	Name    string
	Version int
	Hash    PlanHash
	Lines   []string // what the hash is of, for people: one line per step
}
