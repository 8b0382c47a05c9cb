package main

import "time"

// A cell is what one variant did in one round.
type cell struct {
	work

	connections int           // of the variant
	cpu, here   time.Duration // of all processes of ours, and of this one
	wal         float64       // bytes
}

func (c *cell) rate() float64     { return float64(c.operations) / c.took.Seconds() }
func (c *cell) perCPU() float64   { return float64(c.operations) / max(c.cpu, tick).Seconds() }
func (c *cell) cpuEach() float64  { return inMicroseconds(c.cpu) / float64(c.operations) }
func (c *cell) hereEach() float64 { return inMicroseconds(c.here) / float64(c.operations) }
func (c *cell) walEach() float64  { return c.wal / float64(c.operations) }

// steady is the rate that n callers have while all of them call: each begins an operation
// when its last one ends (Little's law). At the end of a turn they stop one by one, of
// which rate has more the longer an operation takes.
func (c *cell) steady(n int) float64 {
	var all time.Duration
	for _, wait := range c.waits {
		all += wait
	}
	return float64(n) * float64(len(c.waits)) / all.Seconds()
}

func (c *cell) p50() float64 { return inMicroseconds(percentile(c.waits, 0.5)) }
func (c *cell) p99() float64 { return inMicroseconds(percentile(c.waits, 0.99)) }
func (c *cell) add(w work, u usage, wal float64) {
	c.operations += w.operations
	c.took += w.took
	c.waits = append(c.waits, w.waits...)
	c.cpu += u.ours
	c.here += u.self
	c.wal += wal
}

// results are the cells of each variant, round by round.
type results map[string][]*cell

// spread returns what value finds in each round of a variant.
func (r results) spread(name string, value func(*cell) float64) spread {
	var values []float64
	for _, c := range r[name] {
		values = append(values, value(c))
	}
	return spreadOf(values)
}

// ratio is the same in parts of another's in the same round.
func (r results) ratio(name, other string, value func(*cell) float64) spread {
	var values []float64
	for i, c := range r[name] {
		values = append(values, value(c)/value(r[other][i]))
	}
	return spreadOf(values)
}

// describe is a figure that says how a variant did, without a goal; by another's
// rate if there is one.
func (r results) describe(name string, other ...string) figure {
	f := figure{Name: "… " + name, Measures: []measure{r.spread(name, (*cell).rate).Measure("rate", perSecond, nil)}}
	for _, o := range other {
		f.Measures = append(f.Measures, r.ratio(name, o, (*cell).rate).Measure("by "+o, times, nil))
	}
	if r[name][0].waits != nil {
		f.Measures = append(f.Measures, r.spread(name, (*cell).p50).Measure("p50", microseconds, nil), r.spread(name, (*cell).p99).Measure("p99", microseconds, nil))
	}
	f.Measures = append(f.Measures, r.spread(name, (*cell).cpuEach).Measure("CPU", microseconds, nil))
	if r[name][0].waits != nil { // else this process only watches
		f.Measures = append(f.Measures, r.spread(name, (*cell).hereEach).Measure("of it here", microseconds, nil))
	}
	if n := r[name][0].connections; n > 0 {
		f.Measures = append(f.Measures, number("connections", float64(n), "", nil))
	}
	if r[name][0].wal > 0 {
		f.Measures = append(f.Measures, r.spread(name, (*cell).walEach).Measure("WAL", byteCount, nil))
	}
	return f
}
