package demo

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// How often progress is shown: in place on a terminal, as new lines elsewhere.
const (
	liveEvery  = 100 * time.Millisecond
	plainEvery = time.Second
)

// startProgress writes line to w from time to time, and once more when stop is
// called.
func startProgress(w io.Writer, line func() string) (stop func()) {
	every, format := plainEvery, "%s\n"
	live := isTerminal(w)
	if live {
		every, format = liveEvery, "\r\x1b[K%s" // back to the first column, clear the line
	}
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, format, line())
			case <-done:
				fmt.Fprintf(w, format, line())
				return
			}
		}
	})
	return func() {
		close(done)
		writing.Wait()
		if live {
			fmt.Fprintln(w)
		}
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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
