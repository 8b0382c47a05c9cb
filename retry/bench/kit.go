package main

import "github.com/fanonce/fanonce/internal/benchkit"

// The parts of a report.
type (
	figure  = benchkit.Figure
	measure = benchkit.Measure
	goal    = benchkit.Goal
	spread  = benchkit.Spread
)

var (
	spreadOf       = benchkit.SpreadOf
	inMilliseconds = benchkit.Milliseconds
)
