package console

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
)

// confirmData is a confirmation: it says what a verb does to how many targets, and asks for the reason.
type confirmData struct {
	Job     *job
	Verb    verb
	Noun    string // of one target
	Sample  []target
	AtLeast bool
	Back    string
	Failure string // why the last try was refused
	Typed   bool   // the person types how many targets there are
}

// resultData is the state of a job after a part of it.
type resultData struct {
	Job     *job
	Verb    verb
	Noun    string
	Ended   bool
	Failure string
	Back    string
}

// prepare reads a job from the form, and finds its verb and workshop. It answers and returns false if there are none.
func (c *Console) prepare(w http.ResponseWriter, r *http.Request) (*job, verb, workshop, bool) {
	j, err := parseJob(r.PostForm)
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return nil, verb{}, nil, false
	}
	v, shop, found := c.workshop(j)
	if !found {
		c.fail(w, r, http.StatusNotFound, "The console has no such source, it cannot change it, or there is no such verb. Nothing was changed.")
		return nil, verb{}, nil, false
	}
	if why := cmp.Or(c.refuses(j, v), j.tooWide()); why != "" {
		c.fail(w, r, http.StatusBadRequest, why+" Nothing was changed.")
		return nil, verb{}, nil, false
	}
	if v.Answer && (j.All() || len(j.Targets) > 1) || v.Step && len(j.Targets) != 1 {
		c.fail(w, r, http.StatusBadRequest, "This verb is for one target at a time. Nothing was changed.")
		return nil, verb{}, nil, false
	}
	return j, v, shop, true
}

// workshop returns the verb and the place where the job is done.
func (c *Console) workshop(j *job) (verb, workshop, bool) {
	if s, ok := c.store(j.Source); ok && j.Source != "" && j.Kind == kindKey && s.Guard != nil {
		v, ok := keyVerbs[j.Verb]
		return v, keyWork{s}, ok
	}
	if s, ok := c.journal(j.Source); ok && j.Source != "" && j.Kind == kindSaga && s.Operator != nil {
		v, ok := sagaVerbs[j.Verb]
		return v, sagaWork{s}, ok
	}
	return verb{}, nil, false
}

// refuses says why the source of the job cannot carry the verb out, whatever the target; "": it can.
func (c *Console) refuses(j *job, v verb) string {
	if s, ok := c.store(j.Source); ok && j.Kind == kindKey && v.Answer {
		return s.NoAnswers
	}
	return ""
}

// back is the address of the page that a job came from.
func (c *Console) back(j *job) string {
	switch {
	case !j.All() && len(j.Targets) == 1:
		return c.link("/"+j.Kind, j.Source, j.Targets[0].ID.String())
	case j.Kind == kindSaga:
		return c.cfg.Prefix + "/sagas?" + with(clone(j.Filter), "in", j.Source)
	case j.Filter.Get("state") == stateDeadLetter:
		return c.cfg.Prefix + "/letters?" + with(clone(j.Filter), "in", j.Source)
	default:
		return c.cfg.Prefix + "/keys?" + with(clone(j.Filter), "in", j.Source)
	}
}

func (c *Console) confirm(w http.ResponseWriter, r *http.Request) {
	j, v, shop, ok := c.prepare(w, r)
	if !ok {
		return
	}
	c.askConfirmation(w, r, http.StatusOK, j, v, shop, "")
}

// askConfirmation shows the confirmation. It changes nothing.
func (c *Console) askConfirmation(w http.ResponseWriter, r *http.Request, status int, j *job, v verb, shop workshop, failure string) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := confirmData{Job: j, Verb: v, Noun: j.Kind, Back: c.back(j), Failure: failure, Typed: j.wantsCount(v)}
	var err error
	if j.All() {
		d.Sample, j.Total, d.AtLeast, err = j.count(ctx, shop)
	} else {
		d.Sample, err = j.see(ctx, shop)
	}
	if err != nil {
		c.fail(w, r, http.StatusServiceUnavailable, c.explain(r, err)+" Nothing was changed.")
		return
	}
	if j.Total != 1 || j.All() {
		j.Batch = cmp.Or(j.Batch, newBatch())
	}
	c.render(w, r, status, "confirm", page{Title: "Confirm", Data: &d})
}

// see reads the named targets, and makes the decision one about the versions that the person sees now. A version
// that the form has already stays: the person saw that one.
func (j *job) see(ctx context.Context, shop workshop) ([]target, error) {
	sample := make([]target, len(j.Targets))
	for i, t := range j.Targets {
		seen, err := shop.show(ctx, t)
		if err != nil {
			return nil, err
		}
		sample[i] = seen
		if t.Version == 0 {
			j.Targets[i].Version = seen.Version
		}
	}
	j.Total = int64(len(j.Targets))
	return sample[:min(len(sample), 10)], nil
}

// do works on a confirmed job, and shows how far it is.
func (c *Console) do(w http.ResponseWriter, r *http.Request) {
	j, v, shop, ok := c.prepare(w, r)
	if !ok {
		return
	}
	if err := cmp.Or(j.check(), checkValues(j, v), j.checkCount(v, r.PostForm.Get("count"))); err != nil {
		c.askConfirmation(w, r, http.StatusBadRequest, j, v, shop, err.Error())
		return
	}
	first := j.Cursor == ""
	ended, err := j.work(r.Context(), shop, userOf(r).Name)
	c.logJob(r, j, first, ended, err)
	d := resultData{Job: j, Verb: v, Noun: j.Kind, Ended: ended, Back: c.back(j)}
	if err != nil {
		d.Failure = explainChange(err)
	}
	if ended && j.Total == 1 && j.Done == 1 {
		http.Redirect(w, r, d.Back, http.StatusSeeOther) // a reload then sends nothing
		return
	}
	c.render(w, r, http.StatusOK, "result", page{Title: "Result", Data: &d})
}

// logJob writes one line for each part. The reason may hold what a person types: it is in the audit log alone.
func (c *Console) logJob(r *http.Request, j *job, first, ended bool, err error) {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("verb", j.Verb), slog.String("source", j.Source), slog.String("batch", j.Batch), slog.Bool("first_part", first),
		slog.Bool("ended", ended), slog.Int64("done", j.Done), slog.Int64("refused", j.Refused),
	}
	if len(j.Targets) == 1 {
		attrs = append(attrs, slog.String("id", j.Targets[0].ID.String()))
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	c.log(r, level, "a verb was carried out", attrs...)
}

// checkValues refuses values that the verb cannot use, before any target is moved.
func checkValues(j *job, v verb) error {
	if v.Answer {
		if _, err := resolutionOf(j); err != nil {
			return err
		}
	}
	if v.Step && j.Step == "" {
		return badInput("The step is required.")
	}
	if v.Output && !json.Valid([]byte(j.Output)) {
		return badInput("The output must be JSON of the type that the step returns.")
	}
	return nil
}
