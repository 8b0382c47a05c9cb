package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A report is what the command prints. Its JSON is for machines: names and meanings stay.
type report struct {
	URL     string `json:"url"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	Rows    []line `json:"rows"`
}

type line struct {
	ID        string `json:"id"`
	Status    string `json:"status"` // pass, fail or skip
	Situation string `json:"situation"`
	Want      string `json:"want"`
	Source    string `json:"source"`
	Detail    string `json:"detail,omitempty"` // of a row that did not pass: what was seen, or is missing
	Ms        int64  `json:"ms"`
}

func newReport(url string, results []result) *report {
	r := &report{URL: url}
	for _, one := range results {
		switch one.status {
		case passed:
			r.Passed++
		case failed:
			r.Failed++
		default:
			r.Skipped++
		}
		r.Rows = append(r.Rows, line{
			ID: one.row.id, Status: one.status, Situation: one.row.situation, Want: one.row.want, Source: one.row.source,
			Detail: one.detail, Ms: one.took.Milliseconds(),
		})
	}
	return r
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeText prints the rows that did not pass, and all of them if verbose.
func (r *report) writeText(w io.Writer, verbose bool) error {
	var b strings.Builder
	for _, l := range r.Rows {
		if l.Status == passed && !verbose {
			continue
		}
		fmt.Fprintf(&b, "%-4s  %-26s %s\n", l.Status, l.ID, l.Situation)
		if l.Status == failed {
			fmt.Fprintf(&b, "      want: %s (%s)\n", l.Want, l.Source)
		}
		if l.Detail != "" {
			fmt.Fprintf(&b, "      %s\n", l.Detail)
		}
	}
	fmt.Fprintf(&b, "%s: %d rows passed, %d failed, %d skipped\n", r.URL, r.Passed, r.Failed, r.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}
