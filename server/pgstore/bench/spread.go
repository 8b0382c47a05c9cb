package main

import (
	"slices"
	"time"
)

// A spread is the middle of several values, with the least and the greatest.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return spread{sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]}
}

func (s spread) measure(name, unit string, goal *goal) measure {
	return measure{Name: name, Value: s.median, Unit: unit, Low: s.low, High: s.high, Goal: goal}
}

// number is a measure of which there is only one value.
func number(name string, value float64, unit string, goal *goal) measure {
	return measure{Name: name, Value: value, Unit: unit, Goal: goal}
}

// percentile returns the value that the given part of the durations, in [0, 1],
// does not exceed; 0 if there are none.
func percentile(durations []time.Duration, part float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func inMicroseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// The units of measures.
const (
	times        = "x"
	milliseconds = "ms"
	microseconds = "µs"
	perSecond    = "/s"
	byteCount    = "bytes"
	percent      = "%"
)
