package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/store"
)

// table writes aligned columns: no colour, no frame, so that grep and cut work on it.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer, heads ...any) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t *table) row(cells ...any) {
	words := make([]string, len(cells))
	for i, cell := range cells {
		words[i] = printable(fmt.Sprint(cell))
		if words[i] == "" {
			words[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(words, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// plural returns the word for n things.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// count is a number with its word: 1 key, 2 keys.
func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun, noun+"s")) }

// orNone is a number for a table; "" for 0, which means that there is none.
func orNone(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// printable replaces control characters: stored text must not steer a person's terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, text)
}

// writeJSON writes one document.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeJSONLine writes one document as one line.
func writeJSONLine(w io.Writer, value any) {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

// logger writes warnings to stderr: lines of text, or of JSON.
func (a *app) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// printLine prints one JSON document, or a line of text.
func (a *app) printLine(out any, text string) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// ago is how long a time is past, to two units: 3d4h, 2m5s.
func ago(d time.Duration) string {
	if d < 0 {
		return "-" + ago(-d)
	}
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		return d.Round(time.Second).String()
	}
}

// stamp is a time in UTC, or "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// page is the flags of a list.
type page struct {
	limit int
	after string
}

const maxPage = 1000

func (p *page) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "how many at most, up to 1000")
	cmd.Flags().StringVar(&p.after, "after", "", "where the previous page ended, as it says")
}

func (p *page) check() error {
	if p.limit < 1 || p.limit > maxPage {
		return fmt.Errorf("--limit %d is not between 1 and %d", p.limit, maxPage)
	}
	return nil
}

// printPage prints a page as JSON or as a table. How to get the next page goes to stderr: stdout is the table.
func (a *app) printPage(out any, t *table, next string) error {
	if a.json {
		return writeJSON(a.stdout, out)
	}
	err := t.flush()
	if next != "" {
		_, _ = fmt.Fprintln(a.stderr, "more: --after "+next)
	}
	return err
}

// A cursor is the time and the ID of a page's last row.
func cursorText(at time.Time, id string) string { return at.UTC().Format(time.RFC3339Nano) + "/" + id }

func parseCursor(text string) (at time.Time, id store.ID, err error) {
	if text == "" {
		return at, id, nil
	}
	when, what, _ := strings.Cut(text, "/")
	if at, err = time.Parse(time.RFC3339Nano, when); err == nil {
		id, err = store.ParseID(what)
	}
	if err != nil {
		return at, id, errors.New("--after is not where a page ended: copy what the previous page says")
	}
	return at, id, nil
}

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

// noteOut is the JSON of a line for people.
type noteOut struct {
	Note string `json:"note"`
}

// announce prints a line on stderr.
func (a *app) announce(line string) {
	if a.json {
		writeJSONLine(a.stderr, noteOut{line})
		return
	}
	_, _ = io.WriteString(a.stderr, line+"\n")
}

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
