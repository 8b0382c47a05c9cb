package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// shown is how many orders a report lists one by one.
const shown = 5

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d checkouts, %d at a time, faults %s, seed %d, on %s%s\n\n", r.Checkouts, r.Parallel, r.Faults, r.Seed, r.Storage, r.keys())
	if err := r.table(&b); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d of %d checkouts accepted, after %d submissions; payment service %s %d times; %.1f s\n",
		r.Accepted, r.Checkouts, r.Submissions, r.paymentFate(), r.Kills, r.Wall.Round(100*time.Millisecond).Seconds())
	if s := r.Sagas; s != nil {
		fmt.Fprintf(&b, "%d more as sagas, with a declined card: %d undone; %d reservations, %d of them released; %d charges and messages\n",
			s.Orders, s.Undone, s.Reserved, s.Released, s.Wrong)
	}
	r.list(&b)
	b.WriteString(r.conclusion() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// keys names the other store, if there is one.
func (r *Report) keys() string {
	if r.Keys == "" {
		return ""
	}
	return " and " + r.Keys
}

func (r *Report) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(Hop) any) {
		// The tabwriter aligns all to the right: names are padded by hand.
		fmt.Fprintf(t, "%-28s", name)
		for _, hop := range r.Hops {
			fmt.Fprintf(t, "\t%v", cell(hop))
		}
		fmt.Fprint(t, "\t\n")
	}
	row("", func(h Hop) any { return h.Name })
	row("attempts on the wire", func(h Hop) any { return h.Attempts })
	for _, kind := range faultnet.Kinds() {
		row("  "+kind.String(), func(h Hop) any { return h.Faults[kind] })
	}
	row("  service dead", func(h Hop) any { return h.Refused })
	row("delivered, copies included", func(h Hop) any { return h.Delivered })
	row("  service killed meanwhile", func(h Hop) any { return h.Unanswered })
	row("effects in the ledger", func(h Hop) any { return h.Effects })
	row("duplicates suppressed", func(h Hop) any { return h.Suppressed })
	row("effects per key, min - max", func(h Hop) any { return fmt.Sprintf("%d - %d", h.Min, h.Max) })
	row("keys with more than one", func(h Hop) any { return h.Doubled })
	row("lost acknowledgements", func(h Hop) any { return h.Lost })
	return t.Flush()
}

func (r *Report) list(w io.Writer) {
	for i, failure := range r.Unaccepted {
		if i == shown {
			fmt.Fprintf(w, "  and %d more\n", len(r.Unaccepted)-shown)
			break
		}
		fmt.Fprintf(w, "  %s was never acknowledged: %s\n", failure.Order, failure.Error)
	}
	var taken int64
	for i, charge := range r.Charged {
		if i < shown {
			fmt.Fprintf(w, "  %s was charged %d times: %s instead of %s\n",
				charge.Order, charge.Times, money(charge.Cents), money(charge.Cents/int64(charge.Times)))
		}
		taken += charge.Cents - charge.Cents/int64(charge.Times)
	}
	if len(r.Charged) > 0 {
		fmt.Fprintf(w, "  %d customers were charged more than once, %s too much in all\n", len(r.Charged), money(taken))
	}
}

// paymentFate says what happened to the payment service. Without a database it runs inside this
// process, which is not killed.
func (r *Report) paymentFate() string {
	if r.Storage == Memory {
		return "restarted"
	}
	return "killed"
}

func (r *Report) conclusion() string {
	switch {
	case !r.OK && r.Unsafe:
		return "NOT OK: retries without keys have these effects. Run it again without -unsafe."
	case !r.OK:
		return "NOT OK: the guarantee is broken."
	case r.Accepted == 0:
		return "OK, but no checkout was accepted: the run proves nothing."
	default:
		return "OK: every accepted checkout took effect exactly once at every hop."
	}
}

func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
