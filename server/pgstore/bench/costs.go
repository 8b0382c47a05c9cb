package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// A cost is what some functions have in common.
type cost struct {
	name  string
	begin []string // of the functions' names, with their packages
}

// costs are looked for from the function that ran outwards, to its caller and on. A function that
// is not listed here, such as a copy of memory, counts for its caller. Work that the garbage
// collector puts on an allocation counts for the collector. The work of the bench's callers between
// calls counts for the bench only if no other cost here fits: clocks that it reads are clocks.
var costs = []cost{
	{"garbage collection", []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcDrain", "runtime.gcStart", "runtime.gcMarkDone",
		"runtime.gcMarkTermination", "runtime.bgsweep", "runtime.bgscavenge",
	}},
	{"allocation", []string{"runtime.mallocgc", "runtime.newobject", "runtime.growslice", "runtime.makeslice"}},
	{"goroutines and locks", []string{ // starting them, waiting, waking
		"runtime.newproc", "runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.goready", "runtime.ready", "runtime.gopark",
		"runtime.wakep", "runtime.mstart", "runtime.netpoll", "runtime.futex",
		"runtime.selectgo", "runtime.chansend", "runtime.chanrecv", "runtime.closechan",
		"sync.(*Mutex)", "sync.(*RWMutex)", "internal/sync.(*Mutex)", "runtime.sem",
	}},
	{"sockets", []string{"internal/poll.", "syscall."}},
	{"contexts, timers and clocks", []string{"context.", "time.", "runtime.(*timer"}},
	{"encoding/json", []string{"encoding/json."}},
	{"SHA-256", []string{"crypto/sha256.", "crypto/internal/fips140/sha256."}},
	{"random numbers", []string{"crypto/rand.", "crypto/internal/"}},
	{"pgx", []string{"github.com/jackc/"}},
	{"the bench", []string{"main.", "github.com/fanonce/fanonce/server/pgstore/bench."}}, // before that which begins like it
	{"fanonce", []string{"github.com/fanonce/fanonce/"}},
}

// otherCost is that of functions of which nobody up to the goroutine's first is named above.
const otherCost = "else"

// costOf is the cost that a stack belongs to, given from the function that ran outwards.
func costOf(stack []string) string {
	for _, function := range stack {
		for _, c := range costs {
			if slices.ContainsFunc(c.begin, func(begin string) bool { return strings.HasPrefix(function, begin) }) {
				return c.name
			}
		}
	}
	return otherCost
}

// A part is the share of a profile that one cost has.
type part struct {
	name  string
	share float64
}

// smallPart is the share below which a cost goes to the others.
const smallPart = 0.02

// partsOf divides the samples of a profile by costs, the largest first and the others last. A
// profile without samples yields no parts.
func partsOf(taken []byte) (parts []part, all int64, err error) {
	p, err := profile.ParseData(taken)
	if err != nil {
		return nil, 0, fmt.Errorf("bench: profile: %w", err)
	}
	samples := make(map[string]int64)
	for _, s := range p.Sample {
		samples[costOf(stackOf(s))] += s.Value[0]
		all += s.Value[0]
	}
	rest := part{name: otherCost}
	for name, n := range samples {
		switch share := float64(n) / float64(all); {
		case name == otherCost || share < smallPart:
			rest.share += share
		default:
			parts = append(parts, part{name, share})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.name, b.name)) })
	if rest.share > 0 {
		parts = append(parts, rest)
	}
	return parts, all, nil
}

// stackOf names the functions of a sample, the one that ran first.
func stackOf(s *profile.Sample) (stack []string) {
	for _, at := range s.Location {
		for _, line := range at.Line { // the inlined ones come first
			stack = append(stack, line.Function.Name)
		}
	}
	return stack
}
