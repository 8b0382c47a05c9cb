package main

import (
	"slices"
	"time"
)

// A spread is the middle of several values, with the least and the greatest.
type spread struct{ median, low, high float64 }

// spreadOf returns the spread of value over the rounds.
func spreadOf[T any](rounds []T, value func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r)
	}
	return middle(values)
}

// ratios returns the spread of the ratios of rounds to others, round by round.
func ratios[T any](rounds, others []T, value func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = value(rounds[i]) / value(others[i])
	}
	return middle(values)
}

func middle(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	return spread{values[len(values)/2], values[0], values[len(values)-1]}
}

func (s spread) measure(name, unit string, goal *goal) measure {
	return measure{Name: name, Value: s.median, Unit: unit, Low: s.low, High: s.high, Goal: goal}
}

// median returns the middle one of the durations; 0 if there are none.
func median(durations []time.Duration) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[len(durations)/2]
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
