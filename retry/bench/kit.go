package main

import "github.com/fanonce/fanonce/internal/benchkit"

// The parts of a report.
type (
	figure  = benchkit.Figure
	measure = benchkit.Measure
	goal    = benchkit.Goal
	report  = benchkit.Report
	section = benchkit.Section
)
