package server

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of a histogram's buckets, inclusive: from a
// claim on a fast disk to a run that outlived every deadline.
var bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

type histogram struct {
	counts [len(bounds) + 1]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// A HistogramSnapshot is a distribution of durations.
type HistogramSnapshot struct {
	Count int64 `json:"count"`
	// SumSeconds and the buckets' bounds are in seconds, as Prometheus wants
	// them.
	SumSeconds float64  `json:"sum_seconds"`
	Buckets    []Bucket `json:"buckets"`
}

// A Bucket counts the durations of at most UpTo seconds, those of the buckets
// before it included. What is longer than the last bound is in Count alone.
type Bucket struct {
	UpTo  float64 `json:"up_to"`
	Count int64   `json:"count"`
}

func (h *histogram) snapshot() HistogramSnapshot {
	s := HistogramSnapshot{
		SumSeconds: time.Duration(h.sum.Load()).Seconds(),
		Buckets:    make([]Bucket, len(bounds)),
	}
	for i, bound := range bounds {
		s.Count += h.counts[i].Load()
		s.Buckets[i] = Bucket{UpTo: bound.Seconds(), Count: s.Count}
	}
	s.Count += h.counts[len(bounds)].Load()
	return s
}
