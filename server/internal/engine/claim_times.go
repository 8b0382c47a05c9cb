package engine

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// claimTimes has the durations of the claims that began within one window of time. It is a histogram with buckets
// narrow enough to show an increase of a tenth. It is safe for concurrent use. A nil claimTimes drops every duration.
type claimTimes struct {
	counts [claimBuckets]atomic.Uint32
}

const (
	// fineness is the number of bits of a duration, after the first, that
	// select its bucket. So a bucket's width is a thirty-second of its power of
	// two.
	fineness = 5
	// claimBuckets is enough for 2^40 ns, a third of an hour.
	claimBuckets = (40 - fineness + 1) << fineness
)

func (c *claimTimes) add(d time.Duration) {
	if c != nil {
		c.counts[claimBucket(d)].Add(1)
	}
}

// claimBucket is the duration as a floating-point number of few bits: below
// 1<<fineness it is exact.
func claimBucket(d time.Duration) int {
	n := uint64(max(d, 0))
	exponent := max(bits.Len64(n)-fineness-1, 0)
	return min(exponent<<fineness+int(n>>exponent), claimBuckets-1) //nolint:gosec // at most 2^(fineness+1) is left of n
}

// claimBucketEnd is the least duration that belongs to a later bucket.
func claimBucketEnd(bucket int) time.Duration {
	bucket++
	exponent := max(bucket>>fineness-1, 0)
	return time.Duration(bucket-exponent<<fineness) << exponent
}

// count returns how many claims there were in all windows.
func countClaims(windows []*claimTimes) (n int) {
	for _, w := range windows {
		for i := range w.counts {
			n += int(w.counts[i].Load())
		}
	}
	return n
}

// quantile returns the duration that the given share of all windows' claims did
// not exceed, to the precision of the buckets. It is 0 if there were no claims.
func quantile(share float64, windows ...*claimTimes) time.Duration {
	left := int(share*float64(countClaims(windows)-1)) + 1 // that the answer must cover
	for bucket := range claimBuckets {
		for _, w := range windows {
			left -= int(w.counts[bucket].Load())
		}
		if left <= 0 {
			return claimBucketEnd(bucket)
		}
	}
	return 0
}

// A claimWatch has the window in which claims are counted now. It has none
// while no sweeper needs it.
type claimWatch struct{ window atomic.Pointer[claimTimes] }

// now returns the window of a claim that begins now, also if the claim ends in another window.
func (w *claimWatch) now() *claimTimes { return w.window.Load() }

// open begins a window, and ends the one before.
func (w *claimWatch) open() *claimTimes {
	window := new(claimTimes)
	w.window.Store(window)
	return window
}

func (w *claimWatch) stop() { w.window.Store(nil) }
