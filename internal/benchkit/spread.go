package benchkit

import (
	"cmp"
	"slices"
	"time"
)

// A Spread is the middle of several values, with the least and the greatest.
type Spread struct{ Median, Low, High float64 }

// SpreadOf returns the spread of the values; the zero Spread if there are none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]}
}

// Measure returns the spread as a measure; a nil goal means that it is measured to compare with.
func (s Spread) Measure(name, unit string, goal *Goal) Measure {
	return Measure{Name: name, Value: s.Median, Unit: unit, Low: s.Low, High: s.High, Goal: goal}
}

// Percentile returns the value that the given part of the values, in [0, 1], does not exceed; zero
// if there are none.
func Percentile[T cmp.Ordered](values []T, part float64) (value T) {
	if len(values) == 0 {
		return value
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Milliseconds returns d in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
