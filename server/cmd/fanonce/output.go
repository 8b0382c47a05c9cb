package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
