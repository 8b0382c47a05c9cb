package main

import "github.com/fanonce/fanonce/internal/benchkit"

// spreadOf returns the spread of value over the rounds.
func spreadOf[T any](rounds []T, value func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r)
	}
	return benchkit.SpreadOf(values)
}

// ratios returns the spread of the ratios of rounds to others, round by round.
func ratios[T any](rounds, others []T, value func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = value(rounds[i]) / value(others[i])
	}
	return benchkit.SpreadOf(values)
}
