package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressEvery is how often progress is shown.
const progressEvery = time.Second

// startProgress writes line to w from time to time, and once more when stop is
// called.
func startProgress(w io.Writer, line func() string) (stop func()) {
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintln(w, line())
			case <-done:
				fmt.Fprintln(w, line())
				return
			}
		}
	})
	return func() {
		close(done)
		writing.Wait()
	}
}

// line is the state of the run in one line.
func (s *stage) line(crowd *customers) string {
	attempts, faults := 0, 0
	for _, edge := range s.edges {
		counts := edge.Counts()
		attempts += counts.Attempts
		faults += counts.Injected()
	}
	of := fmt.Sprintf(" of %d", s.opts.checkouts)
	if s.opts.serve {
		of = "" // it goes on until somebody ends it
	}
	return fmt.Sprintf("%d%s accepted, %d attempts on the wire, %d faults, payment down %d times",
		crowd.accepted.Load(), of, attempts, faults, s.payment.kills.Load())
}
