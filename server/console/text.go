package console

import (
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// functions are the functions of the templates.
var functions = template.FuncMap{
	"age": age, "count": count, "stamp": stamp, "rfc3339": rfc3339, "brief": brief,
	"spaced": toWords, "plural": plural, "since": since,
	"less": func(a, b int64) int64 { return a - b }, "sum": func(a, b int64) int64 { return a + b },
	"len64": func(t []target) int64 { return int64(len(t)) }, "len64s": func(t []string) int64 { return int64(len(t)) },
	"states": func() []string { return stateNames }, "effects": func() []string { return effectNames },
	"statuses": func() []string { return statusNames }, "inc": func(i int) int { return i + 1 }, "clip": func(s string) string { return clip(s, 300) },
}

// age is a duration in at most two units, for people.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + age(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// since is the age of t at now.
func since(now, t time.Time) string {
	if t.IsZero() || now.IsZero() {
		return ""
	}
	return age(now.Sub(t))
}

// count is a number with separators.
func count(n int64) string {
	text := strconv.FormatInt(max(n, -n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if n < 0 {
		return "-" + text
	}
	return text
}

// stamp is a time for people, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// rfc3339 is a time for programs.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// brief is the beginning of an ID, which is enough to tell the rows of a page apart.
func brief(id string) string { return id[:min(len(id), 8)] }

// toWords is a name in snake case as words.
func toWords(name string) string { return strings.ReplaceAll(name, "_", " ") }

// plural is a number with its noun.
func plural(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return count(n) + " " + noun
}

// errorText is explain for a read whose error the log has.
const errorText = "The read failed. The log of the console says why."

// explain is an error of a reader for people. An error of a database may hold its address and its user, which are
// nobody's business who looks at keys: the text leaves it out.
func explain(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrNoIndex), errors.Is(err, journal.ErrNoIndex):
		return "This list needs an index that the database does not have: " + clip(err.Error(), 400)
	case errors.Is(err, store.ErrTooSlow), errors.Is(err, journal.ErrTooSlow):
		return "The store found no answer in the time that it gives to people. Ask for less: a shorter age, or one state."
	case errors.Is(err, store.ErrNotFound), errors.Is(err, journal.ErrNotFound):
		return "There is no such record. It may have been swept."
	default:
		return errorText
	}
}

// explainChange is explain for a change that was not made, or whose fate is unknown.
func explainChange(err error) string {
	if errors.Is(err, store.ErrFateUnknown) || errors.Is(err, journal.ErrFateUnknown) {
		return "The answer to the last change was lost: it may have been made. Its page shows what is so."
	}
	return "The change failed: " + clip(err.Error(), 400)
}

// clip cuts text to at most that many bytes, at a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// A badInput is a sentence for the person who sent something that cannot be used.
type badInput string

// Error implements error.
func (b badInput) Error() string { return string(b) }
