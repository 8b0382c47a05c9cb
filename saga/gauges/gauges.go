// Package gauges has the numbers of a journal for monitoring systems, read beside their scrapes. It is for authors of an
// adapter, such as sagaotel.
package gauges

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/internal/monitor"
	"github.com/fanonce/fanonce/saga/journal"
)

const (
	// Every is the least time between two reads. Each reads some ten thousand entries of indexes.
	Every = 10 * time.Second
	// Limit bounds one read.
	Limit = 5 * time.Second
)

// Stats are the latest numbers of a journal. Get does not wait for the journal, and begins a read if one is due. End them
// with Stop. They are safe for concurrent use.
type Stats = monitor.Value[journal.Stats]

// Names gives journals of one process the names by which their numbers are told apart. The zero Names is ready to use.
type Names = monitor.Names

// Watch returns the numbers that read returns, as the Stats of an engine do. It asks nothing yet.
func Watch(read func(context.Context) (journal.Stats, error)) *Stats {
	return monitor.New(read, Every, Limit)
}
