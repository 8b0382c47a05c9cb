package main

import "time"

// number is a measure of which there is only one value.
func number(name string, value float64, unit string, goal *goal) measure {
	return measure{Name: name, Value: value, Unit: unit, Goal: goal}
}

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
