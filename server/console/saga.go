package console

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/console/internal/draw"
)

// sagaData is the page of one saga. Inputs, results and bodies are not in it.
type sagaData struct {
	Source   string
	ID       string
	Row      *sagaRow // nil: none is stored.
	Graph    drawing  // "": the plan cannot be drawn.
	PlanNote string   // It says why there is no Graph.
	Steps    []stepRow
	Awaits   []saga.Awaited
	Timeline []moment
	Audit    []auditLine
	Failure  string
	Verbs    []verb
	NoVerb   string // why a verb that fits a step is not offered; "": none is missing
}

// noDefinition says why Force OK is not offered.
const noDefinition = "“Force OK” is not offered here: the operator of this console does not have the definition of the saga, " +
	"which knows the type of the output. Use a console that the service mounts with its own engine, or saga.NewOperator with the definition."

// StepVerbs reports whether a verb about one step is offered.
func (d *sagaData) StepVerbs() bool {
	return slices.ContainsFunc(d.Steps, func(s stepRow) bool { return len(s.Verbs) > 0 })
}

// A stepRow is one step of a saga, with its call and its undo.
type stepRow struct {
	Plan    saga.StepInfo
	Forward *journal.Entry // nil: no call ended yet
	Undo    *journal.Entry // nil: no undo ended yet
	Verbs   []verb
}

// State is the state of the step's call in one word.
func (s *stepRow) State() string { return entryState(s.Forward) }

// UndoState is the state of the step's undo in one word; "" if none began.
func (s *stepRow) UndoState() string {
	if s.Undo == nil {
		return ""
	}
	return entryState(s.Undo)
}

// Last is the entry of the step that was written last; nil if there is none.
func (s *stepRow) Last() *journal.Entry {
	if s.Undo != nil {
		return s.Undo
	}
	return s.Forward
}

// The states of a call that decide which verbs fit.
const (
	stateCompleted = "completed"
	stateRejected  = "rejected"
	stateSkipped   = "skipped"
)

func entryState(e *journal.Entry) string {
	switch {
	case e == nil:
		return "waiting"
	case e.IsAsleep():
		return "asleep"
	case e.Pending:
		return "pending"
	case e.Skipped:
		return stateSkipped
	default:
		return word(e.Outcome.String())
	}
}

func (c *Console) saga(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s, ok := c.journal(q.Get("in"))
	id, err := journal.ParseID(q.Get("id"))
	if !ok || err != nil {
		c.fail(w, r, http.StatusNotFound, "The console has no such journal, or the address names no ID.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := sagaData{Source: s.Name, ID: id.String()}
	status := http.StatusOK
	rec, err := s.Reader.Show(ctx, id)
	switch {
	case err == nil:
		d.Row = &sagaRow{rec, s.Name}
	case errors.Is(err, journal.ErrNotFound):
		status = http.StatusNotFound
	default:
		status, d.Failure = http.StatusServiceUnavailable, c.explain(r, err)
	}
	entries, err := s.Reader.AuditPage(ctx, journal.AuditRequest{ID: id, Limit: auditRows})
	if err != nil {
		d.Failure = cmp.Or(d.Failure, c.explain(r, err))
	}
	d.Audit = c.sagaAudit(s.Name, entries)
	if d.Row != nil {
		d.fill(ctx, s, userOf(r).Role == Operator && s.Operator != nil, entries)
	}
	c.render(w, r, status, "saga", page{Title: "Saga", Nav: "sagas", Live: true, Data: &d})
}

// fill adds the steps, the drawing and the timeline of the saga.
func (d *sagaData) fill(ctx context.Context, s *Sagas, operator bool, audit []journal.AuditEntry) {
	rec := &d.Row.Record
	plan, unread := s.Reader.Plan(ctx, rec.Name, rec.Version)
	var steps []saga.StepInfo
	var err error
	switch {
	case unread != nil:
		d.PlanNote = "The plan cannot be drawn. " + explain(unread)
	case plan.Hash != rec.Plan:
		d.PlanNote = "The saga began under another plan of this version. The drawing is left out."
	default:
		if steps, err = saga.RecordSteps(plan, *rec); err != nil {
			d.PlanNote = "The plan cannot be drawn: " + clip(err.Error(), 200)
		}
	}
	d.Steps = stepsOf(steps, rec.Entries)
	d.Awaits = saga.AwaitedBy(*rec, steps)
	if steps != nil {
		d.Graph = graphOf(rec, d.Steps)
	}
	if operator {
		d.Verbs = sagaVerbsFor(d.Row)
		defined := s.Operator.HasDefinition(rec.Plan)
		for i := range d.Steps {
			step := &d.Steps[i]
			step.Verbs = stepVerbsFor(d.Row, step, defined)
			if !defined && canForceOK(d.Row, step) {
				d.NoVerb = noDefinition
			}
		}
	}
	d.Timeline = sagaTimeline(rec, audit)
}

// stepsOf joins the steps of a plan with the entries of a saga. An entry without a step of the plan has a row too.
func stepsOf(plan []saga.StepInfo, entries []journal.Entry) []stepRow {
	rows := make([]stepRow, len(plan))
	at := make(map[string]int, len(plan))
	for i, p := range plan {
		rows[i].Plan = p
		at[p.Name] = i
	}
	for i := range entries {
		e := &entries[i]
		k, ok := at[e.Step]
		if !ok {
			k = len(rows)
			at[e.Step] = k
			rows = append(rows, stepRow{Plan: saga.StepInfo{Name: e.Step}})
		}
		if e.Undo {
			rows[k].Undo = e
		} else {
			rows[k].Forward = e
		}
	}
	return rows
}

// sagaTimeline is everything that is known of a saga, in the order of time.
func sagaTimeline(rec *journal.Record, audit []journal.AuditEntry) []moment {
	var all []moment
	add := func(m moment) {
		if m.At.IsZero() {
			return
		}
		if m.At.After(rec.Now) {
			m.Kind = "future"
		}
		all = append(all, m)
	}
	add(moment{rec.CreatedAt, "record", "Stored", ""})
	add(moment{rec.FirstClaimedAt, "record", "First engine", ""})
	add(moment{rec.FailedAt, "record", "Failed: goes back from here", ""})
	add(moment{rec.ResumedAt, "record", "Last resumed by a person", ""})
	add(moment{rec.FinishedAt, "record", "Now " + rec.Status.String(), ""})
	if rec.WakeAt.Sub(rec.Now) < saga.MaxDuration/2 {
		add(moment{rec.WakeAt, "record", "Sleeps until then", ""})
	}
	add(moment{rec.DeadlineAt, "record", "Time is up", ""})
	add(moment{rec.ExpiresAt, "record", "May be swept", ""})
	for i := range rec.Entries {
		e := &rec.Entries[i]
		what := e.Step
		if e.Undo {
			what = "undo of " + e.Step
		}
		detail, next := entryState(e)+", "+plural(int64(e.Attempts), "attempt"), "next attempt"
		if e.IsAsleep() {
			detail, next = "asleep", "sleeps until then"
		}
		if e.Forced != "" {
			detail += ", stated by " + e.Forced
		}
		add(moment{e.At, "event", what, detail})
		if e.Pending && e.RetryAt.Sub(rec.Now) < saga.MaxDuration/2 { // else it waits for as long as it takes
			add(moment{e.RetryAt, "event", what, next})
		}
	}
	for _, a := range audit {
		add(moment{a.At, "audit", string(a.Verb) + " by " + a.Actor, a.From.String() + " → " + a.To.String()})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// A drawing is an SVG picture that package draw made. All text in it is escaped.
type drawing = template.HTML

// graphOf draws the steps of a saga. A box leads to the row of its step.
func graphOf(rec *journal.Record, rows []stepRow) drawing {
	steps := make([]draw.Step, len(rows))
	for i := range rows {
		s := &rows[i]
		steps[i] = draw.Step{
			Name: s.Plan.Name, After: s.Plan.After, Pivot: s.Plan.Pivot, State: s.State(), Text: entryText(s.Forward),
			Undo: s.UndoState(), Href: "#step-" + strconv.Itoa(i+1),
		}
		if s.Plan.Each && s.State() == stateCompleted {
			steps[i].Text = plural(itemsOf(rows, s), "item")
		}
		if s.Undo != nil {
			steps[i].UndoText = entryText(s.Undo)
		}
		if on := rec.StuckOn; on != nil && on.Step == s.Plan.Name {
			if on.Undo {
				steps[i].Undo = "stuck"
				steps[i].UndoText = "stuck: " + entryText(s.Undo)
			} else {
				steps[i].State, steps[i].Text = "stuck", "stuck: "+entryText(s.Forward)
			}
		}
	}
	return draw.NewGraph("Steps of "+rec.Name, steps).SVG()
}

// itemsOf is how many items of an Each have a row.
func itemsOf(rows []stepRow, each *stepRow) (n int64) {
	for i := range rows {
		if rows[i].Plan.Of == each.Plan.Name {
			n++
		}
	}
	return n
}

// entryText is a call in a few words, which fit a box.
func entryText(e *journal.Entry) string {
	text := toWords(entryState(e))
	if e == nil {
		return text
	}
	if e.Nothing {
		text += ", nothing to undo"
	}
	if e.Attempts > 1 {
		text += ", " + plural(int64(e.Attempts), "attempt")
	}
	if e.Forced != "" {
		text += ", forced"
	}
	return text
}

// word is an outcome as a word of a class.
func word(outcome string) string {
	if outcome == "NotSent" {
		return "not_sent"
	}
	return strings.ToLower(outcome)
}
