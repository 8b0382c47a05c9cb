package console

import (
	"sync"
	"time"

	"github.com/fanonce/fanonce/server"
)

// The bounds of the samples of one store. At the live refresh's pace they cover about ten minutes.
const (
	maxSamples  = 120
	sampleEvery = 2 * time.Second
)

// A sample is the counts of all routes at one time.
type sample struct {
	at                     time.Time
	hit, miss, mismatch    int64
	claim, wait, pendingAt server.HistogramSnapshot
}

// rates keeps the latest samples of one store's metrics. A sample is taken when a person looks. A look after a
// long time makes one long interval.
type rates struct {
	mu      sync.Mutex
	samples []sample // the youngest last
}

// look adds a sample, unless the last one is young, and returns all.
func (r *rates) look(now time.Time, snapshot func() map[string]server.RouteSnapshot) []sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.samples); n == 0 || now.Sub(r.samples[n-1].at) >= sampleEvery {
		if n == maxSamples {
			r.samples = append(r.samples[:0], r.samples[1:]...)
		}
		r.samples = append(r.samples, sampleOf(now, snapshot()))
	}
	return append([]sample(nil), r.samples...)
}

func sampleOf(now time.Time, routes map[string]server.RouteSnapshot) sample {
	s := sample{at: now}
	for _, route := range routes {
		s.hit += route.Counts[server.EventHit.String()]
		s.miss += route.Counts[server.EventMiss.String()]
		s.mismatch += route.Counts[server.EventMismatch.String()]
		addHistogram(&s.claim, &route.Claim)
		addHistogram(&s.wait, &route.Wait)
		addHistogram(&s.pendingAt, &route.PendingAge)
	}
	return s
}

// addHistogram adds b to a. All histograms of a process have the same bounds.
func addHistogram(a, b *server.HistogramSnapshot) {
	if len(a.Buckets) == 0 {
		a.Buckets = append([]server.Bucket(nil), b.Buckets...)
	} else {
		for i := range min(len(a.Buckets), len(b.Buckets)) {
			a.Buckets[i].Count += b.Buckets[i].Count
		}
	}
	a.Count += b.Count
	a.SumSeconds += b.SumSeconds
}

// between is the part of b that a does not have: the durations between two samples. After a restart of the counts
// it is the whole of b.
func between(a, b server.HistogramSnapshot) server.HistogramSnapshot {
	if len(a.Buckets) != len(b.Buckets) || a.Count > b.Count {
		return b
	}
	d := server.HistogramSnapshot{Count: b.Count - a.Count, Buckets: make([]server.Bucket, len(b.Buckets))}
	for i := range b.Buckets {
		d.Buckets[i] = server.Bucket{UpTo: b.Buckets[i].UpTo, Count: b.Buckets[i].Count - a.Buckets[i].Count}
	}
	return d
}

// A quantile is a duration that a share of the durations does not exceed.
type quantile struct {
	Seconds float64
	Above   bool // it is above the last bound, which is Seconds
	Known   bool
}

// quantileOf estimates within the bucket as if its durations were spread evenly.
func quantileOf(h *server.HistogramSnapshot, share float64) quantile {
	if h.Count <= 0 || len(h.Buckets) == 0 {
		return quantile{}
	}
	rank, below, from := share*float64(h.Count), int64(0), 0.0
	for _, b := range h.Buckets {
		if float64(b.Count) >= rank && b.Count > below {
			part := (rank - float64(below)) / float64(b.Count-below)
			return quantile{Seconds: from + part*(b.UpTo-from), Known: true}
		}
		below, from = b.Count, b.UpTo
	}
	return quantile{Seconds: from, Above: true, Known: true}
}

// String is the quantile for people.
func (q quantile) String() string {
	switch {
	case !q.Known:
		return "–"
	case q.Above:
		return "over " + seconds(q.Seconds)
	default:
		return seconds(q.Seconds)
	}
}

// A timing is one line of the table of durations.
type timing struct {
	Name          string
	P50, P95, P99 quantile
	Count         int64
}

func timingOf(name string, h server.HistogramSnapshot) timing {
	return timing{name, quantileOf(&h, 0.50), quantileOf(&h, 0.95), quantileOf(&h, 0.99), h.Count}
}

// A traffic is what the samples of a store show.
type traffic struct {
	Over    time.Duration // since the first sample; 0: there is only one
	Rates   []series      // of hit, miss and mismatch
	Timings []timing
}

// A series is the rates of one count, per second.
type series struct {
	Name   string
	Now    float64   // over the latest interval
	Total  int64     // since the process began
	Points []float64 // one for each interval, the youngest last
}

// trafficOf makes rates of counts. Durations are those since the first sample, or since the process began if
// there were none.
func trafficOf(samples []sample) *traffic {
	first, last := samples[0], samples[len(samples)-1]
	t := &traffic{Over: last.at.Sub(first.at)}
	t.Rates = []series{
		seriesOf("hit", samples, func(s *sample) int64 { return s.hit }),
		seriesOf("miss", samples, func(s *sample) int64 { return s.miss }),
		seriesOf("mismatch", samples, func(s *sample) int64 { return s.mismatch }),
	}
	for _, h := range []struct {
		name string
		a, b server.HistogramSnapshot
	}{{"pending age", first.pendingAt, last.pendingAt}, {"claim", first.claim, last.claim}, {"wait", first.wait, last.wait}} {
		d := between(h.a, h.b)
		if d.Count == 0 {
			d = h.b
		}
		t.Timings = append(t.Timings, timingOf(h.name, d))
	}
	return t
}

func seriesOf(name string, samples []sample, of func(*sample) int64) series {
	s := series{Name: name, Total: of(&samples[len(samples)-1])}
	for i := 1; i < len(samples); i++ {
		a, b := &samples[i-1], &samples[i]
		grown := of(b) - of(a)
		if grown < 0 { // the counts began anew
			grown = of(b)
		}
		s.Points = append(s.Points, float64(grown)/b.at.Sub(a.at).Seconds())
	}
	if n := len(s.Points); n > 0 {
		s.Now = s.Points[n-1]
	}
	return s
}
