package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/store"
)

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
