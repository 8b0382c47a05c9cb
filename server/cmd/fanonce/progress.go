package main

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// How often a person hears of a long command: a bar is drawn in its place, a line stays.
const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 3 * time.Second
)

// A progress says on stderr how far a long command is. On a terminal it is a bar, which is drawn over and at last removed.
// Otherwise it is a line every few seconds. With --json it is silent. It is safe for concurrent use.
type progress struct {
	app  *app
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup

	mu    sync.Mutex
	g     gauge
	began time.Time
	drawn bool // a bar is on the screen
}

// progress begins to say how far a command is. total is how much there is to do; 0: unknown. The caller ends it.
func (a *app) progress(what string, total int64) *progress {
	p := &progress{app: a, stop: make(chan struct{}), g: gauge{what: what, total: total}, began: time.Now()}
	if a.json {
		return p
	}
	a.current.Store(p)
	bar := a.animated()
	p.done.Go(func() { p.show(bar) })
	return p
}

// animated reports whether stderr is a terminal that can draw over a line.
func (a *app) animated() bool {
	kind, _ := a.environ("TERM")
	return isTerminal(a.stderr) && kind != "dumb" && kind != ""
}

// show draws until the progress ends. It has its own clock, so that a command that waits is seen to wait.
func (p *progress) show(bar bool) {
	every := lineEvery
	if bar {
		every = barEvery
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticks.C:
			p.mu.Lock()
			p.draw(bar)
			p.mu.Unlock()
		}
	}
}

func (p *progress) draw(bar bool) {
	p.g.elapsed = time.Since(p.began)
	if !bar {
		_, _ = io.WriteString(p.app.stderr, "fanonce: "+p.g.line()+"\n")
		return
	}
	// A line of the terminal's whole width would wrap.
	_, _ = io.WriteString(p.app.stderr, "\r"+p.g.bar(width(p.app.stderr)-1, p.app.coloured(p.app.stderr))+"\x1b[K")
	p.drawn = true
}

// set says how much is done.
func (p *progress) set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g.done = done
}

// of says how much there is to do. about: nobody has counted it.
func (p *progress) of(total int64, about bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g.total, p.g.about = total, about
}

// on says what the command is doing now.
func (p *progress) on(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g.what = what
}

// phase says what the command is doing now, and that its count begins anew.
func (p *progress) phase(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.g.what != what {
		p.g = gauge{what: what}
		p.began = time.Now()
	}
}

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.drawn {
		_, _ = io.WriteString(p.app.stderr, "\r\x1b[K")
		p.drawn = false
	}
}

// end removes the bar, and returns when no further one can be drawn. A second call has no effect.
func (p *progress) end() {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
	p.app.current.CompareAndSwap(p, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// announce prints a line on stderr, and does not mix it with a bar.
func (a *app) announce(line string) {
	if p := a.current.Load(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clear()
	}
	_, _ = io.WriteString(a.stderr, line+"\n")
}

// coloured reports whether f takes colours: it is a terminal, and NO_COLOR is not set (no-color.org).
func (a *app) coloured(f *os.File) bool {
	value, _ := a.environ("NO_COLOR")
	return value == "" && isTerminal(f)
}

const usualWidth = 80

// width is that of a terminal now: a person may change it while a bar is shown.
func width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 { //nolint:gosec // a descriptor is small
		return w
	}
	return usualWidth
}
