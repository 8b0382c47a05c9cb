package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lineEvery is how often a person hears of a long command.
const lineEvery = 3 * time.Second

// A progress says on stderr how far a long command is: a line every few seconds. With --json it is silent. It is safe for
// concurrent use.
type progress struct {
	done atomic.Int64
	stop func()
}

// progress begins to say how far a command is. total is how much there is to do; 0: unknown. The caller ends it.
func (a *app) progress(what string, total int64) *progress {
	p := &progress{stop: func() {}}
	if a.json {
		return p
	}
	began, stop := time.Now(), make(chan struct{})
	ticks := time.NewTicker(lineEvery)
	var lines sync.WaitGroup
	lines.Go(func() {
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticks.C: // a command that waits is seen to wait
				a.announce("fanonce: " + progressLine(what, p.done.Load(), total, time.Since(began)))
			}
		}
	})
	p.stop = func() {
		close(stop)
		lines.Wait()
	}
	return p
}

// set says how much is done.
func (p *progress) set(done int64) { p.done.Store(done) }

// end returns when no further line can come.
func (p *progress) end() { p.stop() }

// announce prints a line on stderr.
func (a *app) announce(line string) { _, _ = io.WriteString(a.stderr, line+"\n") }

// progressLine is how far a command is, in words. A total of 0 is unknown.
func progressLine(what string, done, total int64, elapsed time.Duration) string {
	var words []string
	switch {
	case total > 0:
		words = append(words, fmt.Sprintf("%d of %d (%d%%)", done, total, done*100/total))
	case done > 0:
		words = append(words, fmt.Sprint(done))
	}
	perSecond := float64(done) / elapsed.Seconds()
	if done > 0 {
		words = append(words, fmt.Sprintf("%.1f/s", perSecond))
	}
	if done > 0 && total > 0 {
		words = append(words, ago(time.Duration(float64(total-done)/perSecond*float64(time.Second)))+" left")
	} else {
		words = append(words, "for "+ago(elapsed))
	}
	return what + ": " + strings.Join(words, ", ")
}
