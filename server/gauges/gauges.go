// Package gauges has the numbers of a store for monitoring systems, and is for authors of an adapter. guardprom and
// guardotel show the same ones. They are read beside the scrapes, each by a read that has a bound: a scrape costs no time.
package gauges

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/internal/monitor"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// AttentionEvery is the least time between two calls of Attention. It reads notes, and no more than a few thousand.
	AttentionEvery = 5 * time.Second
	// EstimateEvery is the least time between two calls of Estimate. It reads some ten thousand records.
	EstimateEvery = 30 * time.Second
	// Limit bounds each of these calls.
	Limit = 5 * time.Second
)

// Names gives guards and stores of one process the names by which their numbers are told apart. The zero Names is ready to
// use.
type Names = monitor.Names

// A Gauge is a kind of number, as OpenTelemetry describes it.
type Gauge struct {
	Name string
	Unit string // as UCUM has it; empty for a number without a unit
	Help string
	By   string // the last word of the attribute that tells its numbers apart, besides the store; empty if there is one number
}

// The gauges.
var (
	Up              = Gauge{"fanonce.store.up", "", "1 if the store answered when it was asked last, else 0.", ""}
	Attention       = Gauge{"fanonce.store.attention", "{key}", "Keys that need a person, by reason.", "reason"}
	OldestAttention = Gauge{"fanonce.store.oldest_attention", "s", "Age of the oldest key that needs a person; 0 if there is none.", ""}
	Estimated       = Gauge{"fanonce.store.estimated_records", "{record}", "Records, by the store's own statistics.", ""}
	Size            = Gauge{"fanonce.store.size", "By", "Size of the tables with their indexes; 0 if the store cannot tell.", ""}
	SweepLag        = Gauge{"fanonce.store.sweep_lag", "s", "Time that the first record to be swept has waited for it; 0 if none waits.", ""}
	AsyncStandbys   = Gauge{"fanonce.store.async_standbys", "{standby}", "Standbys that can lack an answer that was given.", ""}
	OldestRun       = Gauge{"fanonce.store.oldest_in_progress", "s", "Age of the oldest record in progress; 0 if there is none.", ""}
	Records         = Gauge{"fanonce.store.records", "{record}", "Records by state, counted.", "state"}
	ReadAge         = Gauge{"fanonce.store.read.age", "s", "Time since the store was asked for the numbers of this kind.", "read"}
)

// All are the gauges, in the order of the documents.
var All = []*Gauge{
	&Up, &Attention, &OldestAttention, &Estimated, &Size, &SweepLag, &AsyncStandbys, &OldestRun, &Records, &ReadAge,
}

// states are the states of records, so that each has a number, even if it is 0.
var states = []store.State{
	store.StateInProgress, store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateQuarantined, store.StateCancelled,
}

// Numbers are those of one store. Make them with [Watch]. They are safe for concurrent use.
type Numbers struct {
	attention *monitor.Value[store.Attention]
	estimate  *monitor.Value[store.Estimate]
	stats     *monitor.Value[store.Stats] // nil: the records are not counted
}

// Watch returns the numbers of s. It asks nothing yet. It counts the records by [store.Store].Stats if statsEvery is
// positive: at most once in that time, and for half of it.
func Watch(s store.Store, statsEvery time.Duration) *Numbers {
	n := &Numbers{
		attention: monitor.New(func(ctx context.Context) (store.Attention, error) { return s.Reader().Attention(ctx) }, AttentionEvery, Limit),
		estimate:  monitor.New(func(ctx context.Context) (store.Estimate, error) { return s.Reader().Estimate(ctx) }, EstimateEvery, Limit),
	}
	if statsEvery > 0 {
		n.stats = monitor.New(s.Stats, statsEvery, max(statsEvery/2, 1))
	}
	return n
}

// Stop ends the reads, and lets none begin any more. It waits for reads that do not end, but not for ever.
func (n *Numbers) Stop() {
	n.attention.Stop()
	n.estimate.Stop()
	if n.stats != nil {
		n.stats.Stop()
	}
}

// An Emit gets one number. by is the value of the attribute g.By.
type Emit func(g *Gauge, by string, value float64)

// Each calls emit with each number that is known, and starts the reads that are due. It waits for none of them. A number
// that cannot be read any more stays the latest one, and ReadAge tells how old it is.
func (n *Numbers) Each(emit Emit) {
	n.emitAttention(emit)
	counted := n.emitStats(emit)
	n.emitEstimate(emit, counted)
}

// emitAttention also tells whether the store is up: it is the cheapest question.
func (n *Numbers) emitAttention(emit Emit) {
	r := n.attention.Get()
	switch {
	case r.Err != nil:
		emit(&Up, "", 0)
	case r.Known:
		emit(&Up, "", 1)
	}
	if !r.Known {
		return
	}
	emit(&Attention, "unknown", float64(r.Value.Unknown))
	emit(&Attention, "quarantined", float64(r.Value.Quarantined))
	emit(&Attention, "dead_letter", float64(r.Value.DeadLetters))
	emit(&OldestAttention, "", r.Value.Oldest.Seconds())
	emit(&ReadAge, "attention", r.Age.Seconds())
}

// emitEstimate leaves the age of the oldest run to the count if there is one: it knows of all runs.
func (n *Numbers) emitEstimate(emit Emit, counted bool) {
	r := n.estimate.Get()
	if !r.Known {
		return
	}
	if r.Value.Records >= 0 {
		emit(&Estimated, "", float64(r.Value.Records))
	}
	emit(&Size, "", float64(r.Value.Bytes))
	emit(&SweepLag, "", r.Value.SweepLag.Seconds())
	emit(&AsyncStandbys, "", float64(r.Value.AsyncStandbys))
	if !counted && r.Value.ByState != nil {
		emit(&OldestRun, "", r.Value.OldestInProgress.Seconds())
	}
	emit(&ReadAge, "estimate", r.Age.Seconds())
}

// emitStats returns true if there is a count.
func (n *Numbers) emitStats(emit Emit) bool {
	if n.stats == nil {
		return false
	}
	r := n.stats.Get()
	if !r.Known {
		return false
	}
	for _, s := range states {
		emit(&Records, s.String(), float64(r.Value.ByState[s]))
	}
	emit(&OldestRun, "", r.Value.OldestInProgress.Seconds())
	emit(&ReadAge, "stats", r.Age.Seconds())
	return true
}
