package main

import (
	"fmt"
	"io"
	"os"
	"strings"
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
	bar := a.isAnimated()
	p.done.Go(func() { p.show(bar) })
	return p
}

// isAnimated reports whether stderr is a terminal that can draw over a line.
func (a *app) isAnimated() bool {
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
	_, _ = io.WriteString(p.app.stderr, "\r"+p.g.bar(width(p.app.stderr)-1, p.app.isColoured(p.app.stderr))+"\x1b[K")
	p.drawn = true
}

// set says how much is done.
func (p *progress) set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.g.done = done
}

// setTotal says how much there is to do. about: nobody has counted it.
func (p *progress) setTotal(total int64, about bool) {
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

// isColoured reports whether f takes colours: it is a terminal, and NO_COLOR is not set (no-color.org).
func (a *app) isColoured(f *os.File) bool {
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

// A gauge shows how far a command is, at one moment.
type gauge struct {
	what        string
	done, total int64 // a total of 0 is unknown
	about       bool  // the total is an estimate
	elapsed     time.Duration
}

// known reports whether there is a total to compare with. An estimate that turned out too low is none.
func (g gauge) known() bool { return g.total > 0 && g.done <= g.total }

// count is what is done, of how much.
func (g gauge) count() string {
	switch {
	case !g.known():
		return thousands(g.done)
	case g.about:
		return thousands(g.done) + " of about " + thousands(g.total)
	default:
		return thousands(g.done) + " of " + thousands(g.total)
	}
}

func (g gauge) percent() string { return fmt.Sprintf("%d%%", g.done*100/g.total) }

// speed is the rate so far, and the time that is left at this rate.
func (g gauge) speed() []string {
	perSecond := float64(g.done) / g.elapsed.Seconds()
	if g.done == 0 || g.elapsed < time.Second/2 {
		return []string{"for " + ago(g.elapsed)}
	}
	words := []string{rate(perSecond)}
	if g.known() {
		left := time.Duration(float64(g.total-g.done) / perSecond * float64(time.Second))
		return append(words, ago(left)+" left")
	}
	return append(words, "for "+ago(g.elapsed))
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return thousands(int64(perSecond)) + "/s"
}

// line is the gauge in words, for logs.
func (g gauge) line() string {
	words := g.speed()
	switch {
	case g.known():
		words = append([]string{g.count() + " (" + g.percent() + ")"}, words...)
	case g.done > 0:
		words = append([]string{g.count()}, words...)
	}
	return g.what + ": " + strings.Join(words, ", ")
}

// The least and the greatest width of the bar itself, without its brackets.
const (
	leastBar = 8
	mostBar  = 40
)

// bar is the gauge in one line of at most width columns. It leaves out the time, then the bar, then the end, where it
// is narrow. It is plain ASCII: the bar is the same in every locale and font.
func (g gauge) bar(width int, colour bool) string {
	words := g.speed()
	switch {
	case g.known():
		words = append([]string{g.percent(), g.count()}, words...)
	case g.done > 0:
		words = append([]string{g.count()}, words...)
	}
	head := printable(g.what) + "  "
	tail := strings.Join(words, "  ")
	if room := width - len(head) - len(tail) - len("[]  "); g.known() && room >= leastBar {
		return head + "[" + g.drawBar(min(room, mostBar), colour) + "]  " + tail
	}
	for len(head)+len(tail) > width && len(words) > 1 {
		words = words[:len(words)-1]
		tail = strings.Join(words, "  ")
	}
	text := []rune(head + tail)
	return string(text[:max(0, min(len(text), width))])
}

// drawBar is the inside of the bar.
func (g gauge) drawBar(width int, colour bool) string {
	full := int(int64(width) * g.done / g.total)
	done, rest := strings.Repeat("=", full), strings.Repeat(" ", width-full)
	if full < width {
		rest = ">" + rest[1:]
	}
	if colour && full > 0 {
		done = "\x1b[32m" + done + "\x1b[0m"
	}
	return done + rest
}

// thousands writes a number with commas: 1,234,567.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
