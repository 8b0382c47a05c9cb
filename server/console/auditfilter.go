package console

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// An auditFilter says which lines of an audit log a page shows. An empty field means any.
type auditFilter struct {
	Actor, Verb string
	// Batch is the name of a job with many targets. Its lines have the name at the beginning of their reason.
	Batch string
}

// parseAuditFilter reads a filter from the values of an address.
func parseAuditFilter(v url.Values) (auditFilter, error) {
	f := auditFilter{Actor: v.Get("actor"), Verb: v.Get("verb"), Batch: strings.TrimSpace(v.Get("batch"))}
	if !oneLine(f.Actor, store.MaxActorBytes) || !oneLine(f.Verb, 64) {
		return f, badInput("An actor and a verb are one line of text.")
	}
	if len(f.Batch) > maxBatchBytes || strings.Trim(f.Batch, "0123456789abcdef") != "" {
		return f, badInput("The name of a batch has the digits 0 to 9 and a to f, as the page of its end shows it.")
	}
	return f, nil
}

// values are the filter as an address has it.
func (f *auditFilter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"actor": f.Actor, "verb": f.Verb, "batch": f.Batch} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Any reports whether the page shows only a part of the log.
func (f *auditFilter) Any() bool { return *f != auditFilter{} }

func (f *auditFilter) matches(l *auditLine) bool {
	return (f.Verb == "" || f.Verb == l.Verb) && (f.Batch == "" || strings.HasPrefix(l.Reason, batchMark(f.Batch)))
}

// An auditReader reads at most limit lines of an audit log before a number, the youngest first.
type auditReader func(ctx context.Context, before int64, limit int) ([]auditLine, error)

// A foundAudit is a part of an audit log.
type foundAudit struct {
	lines []auditLine
	next  int64     // number of the line where the next page goes on; 0: there is none
	until time.Time // as auditData.Until
}

const (
	auditBatch = 500             // lines that a search reads at once
	searchTime = 2 * time.Second // of one page
)

// search reads the log in parts until it has a page of lines. A reader knows neither verbs nor batches, so a search for a
// rare one reads many lines. It ends after searchTime, and the person decides whether it goes on.
func (f *auditFilter) search(ctx context.Context, read auditReader, before int64) (found foundAudit, err error) {
	limit := pageRows
	if f.Verb != "" || f.Batch != "" {
		limit = auditBatch
	}
	for begin := time.Now(); ; {
		lines, err := read(ctx, before, limit)
		if err != nil {
			return found, err
		}
		for i := range lines {
			if f.matches(&lines[i]) {
				found.lines = append(found.lines, lines[i])
			}
			if len(found.lines) == pageRows {
				found.next = lines[i].Number
				return found, nil
			}
		}
		if len(lines) < limit || lines[len(lines)-1].Number == 0 {
			return found, nil
		}
		last := &lines[len(lines)-1]
		if before = last.Number; time.Since(begin) > searchTime {
			found.next, found.until = before, last.At
			return found, nil
		}
	}
}
