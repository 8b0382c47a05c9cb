package main

import (
	"fmt"
	"strings"
	"time"
)

// A gauge is how far a command is, at one moment.
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
		return head + "[" + g.filled(min(room, mostBar), colour) + "]  " + tail
	}
	for len(head)+len(tail) > width && len(words) > 1 {
		words = words[:len(words)-1]
		tail = strings.Join(words, "  ")
	}
	text := []rune(head + tail)
	return string(text[:max(0, min(len(text), width))])
}

// filled is the inside of the bar.
func (g gauge) filled(width int, colour bool) string {
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
