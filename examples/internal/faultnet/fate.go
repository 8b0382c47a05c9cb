package faultnet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// A fate is the fault that happens to one request. The zero fate lets it pass unharmed.
type fate struct {
	kind Kind
	// late tells the two forms of a kind apart: a bad gateway after the work,
	// a copy that arrives after the answer, an answer that is delayed.
	late bool
	wait time.Duration
}

// fates hands out fates. It is safe for concurrent use.
type fates struct {
	seed    uint64
	edge    string
	profile Profile

	mu   sync.Mutex
	seen map[[32]byte]uint64 // how often each request has come by
}

// take returns the fate of a request that arrives. The n-th arrival of one
// request meets the same fate in every run with one seed, in whatever order
// the requests of others arrive.
func (f *fates) take(path string, body []byte) fate {
	id := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(f.edge), f.edge, len(path), path, body))
	f.mu.Lock()
	n := f.seen[id]
	f.seen[id]++
	f.mu.Unlock()
	draw := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(id[:], f.seed), n))
	rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(draw[:8]), binary.BigEndian.Uint64(draw[8:16])))
	return f.profile.draw(rng)
}

func (p Profile) draw(rng *rand.Rand) fate {
	x := rng.Float64()
	for _, kind := range Kinds() {
		if x -= p.Rates[kind]; x < 0 {
			return fate{kind: kind, late: rng.IntN(2) == 1, wait: time.Duration(rng.Float64() * float64(p.MaxWait))}
		}
	}
	return fate{}
}
