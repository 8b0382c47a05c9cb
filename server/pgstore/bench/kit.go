package main

import (
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// The parts of a report.
type (
	figure  = benchkit.Figure
	measure = benchkit.Measure
	goal    = benchkit.Goal
	report  = benchkit.Report
	section = benchkit.Section
	spread  = benchkit.Spread
	machine = benchkit.Machine
)

var (
	spreadOf       = benchkit.SpreadOf
	percentile     = benchkit.Percentile[time.Duration]
	inMilliseconds = benchkit.Milliseconds
)
