package console

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/server/store"
)

// The kinds of targets of a job.
const (
	kindKey  = "key"
	kindSaga = "saga"
)

// maxSelected is how many rows one form may name: more than a page has.
const maxSelected = 2 * pageRows

// A job is a verb for one or many targets. It lives in a form: each answer has the whole job, and the next request
// goes on with it. So the server keeps nothing, and any replica can do the next part.
type job struct {
	Kind, Source, Verb string
	// Targets are the named targets, each with the version that the person saw. Without any, the job is for all
	// that match Filter and that are not younger than Until. That is the source's time when it counted them for the
	// confirmation; zero before.
	Targets []named
	Filter  url.Values
	Until   time.Time

	Reason, Step, Output, Status, Body string

	// Batch names the job in the audit log. It is empty for a job with one target.
	Batch string
	// Cursor says where the next part begins: an index of Targets, or a place in the list.
	Cursor  string
	Done    int64
	Refused int64
	Total   int64
	// Refusals are the first refusals, for people.
	Refusals []string
}

// A named target is an ID with its fence or revision: a decision is about a version of a record.
type named struct {
	ID      store.ID
	Version int64 // 0: as it stands
}

// maxRefusals is how many refusals a job lists. It counts all of them.
const maxRefusals = 50

// parseJob reads a job from a form. It refuses a form that no page of the console makes.
func parseJob(form url.Values) (*job, error) {
	j := &job{
		Kind: form.Get("kind"), Source: form.Get("in"), Verb: form.Get("verb"),
		Reason: strings.TrimSpace(form.Get("reason")), Step: form.Get("step"), Output: form.Get("output"),
		Status: form.Get("status"), Body: form.Get("body"), Batch: form.Get("batch"), Cursor: form.Get("cursor"),
	}
	if j.Kind != kindKey && j.Kind != kindSaga || len(j.Batch) > maxBatchBytes || len(j.Cursor) > 100 {
		return nil, badInput("The form is damaged. Nothing was changed.")
	}
	if err := j.parseTargets(form); err != nil {
		return nil, err
	}
	for name, into := range map[string]*int64{"done": &j.Done, "refused": &j.Refused, "total": &j.Total} {
		n, err := strconv.ParseInt(cmp.Or(form.Get(name), "0"), 10, 64)
		if err != nil || n < 0 {
			return nil, badInput("The form is damaged. Nothing was changed.")
		}
		*into = n
	}
	for _, text := range form["refusal"] {
		j.refuse(text)
	}
	return j, nil
}

// parseTargets reads the targets: the selected ones, or the filter of all.
func (j *job) parseTargets(form url.Values) error {
	ids := form["id"]
	if form.Get("which") == "all" {
		ids = nil
		var err error
		if j.Filter, err = url.ParseQuery(form.Get("filter")); err != nil {
			return badInput("The form is damaged. Nothing was changed.")
		}
		if nanos, err := strconv.ParseInt(form.Get("until"), 10, 64); err == nil {
			j.Until = time.Unix(0, nanos)
		}
		return nil
	}
	if len(ids) == 0 {
		return badInput("No row is selected. Select rows, or choose all that match.")
	}
	if len(ids) > maxSelected {
		return badInput("Too many rows are selected. Choose all that match instead.")
	}
	for _, text := range ids {
		text, version, _ := strings.Cut(text, ":")
		id, err := store.ParseID(text)
		n, bad := strconv.ParseInt(cmp.Or(version, "0"), 10, 64)
		if err != nil || bad != nil || n < 0 {
			return badInput("The form names something that is no ID. Nothing was changed.")
		}
		j.Targets = append(j.Targets, named{id, n})
	}
	return nil
}

// All reports whether the job is for all that match a filter.
func (j *job) All() bool { return j.Targets == nil }

// includes reports whether a target that was created at a time is one of all that match. now is the source's time: the first
// one that is read is the bound of the job.
func (j *job) includes(created, now time.Time) bool {
	if j.Until.IsZero() {
		j.Until = now
	}
	return !created.After(j.Until)
}

// tooWide says why a job must not be for all that match its filter; "": it may. The command fanonce has the same rule: all
// at once are only keys that need a person, and sagas that are not finished.
func (j *job) tooWide() string {
	if !j.All() {
		return ""
	}
	if j.Kind == kindKey {
		if f, err := parseKeyFilter(j.Filter); err != nil || f.Windowed() {
			return "Only keys that need a person can be changed all at once. Select the rows that you mean."
		}
		return ""
	}
	if f, err := parseSagaFilter(j.Filter); err != nil || f.Windowed() {
		return "Only sagas that are not finished can be changed all at once. Select the rows that you mean."
	}
	return ""
}

// wantsCount reports whether the person types how many targets there are: else a filter that is too wide goes unnoticed.
func (j *job) wantsCount(v verb) bool { return j.All() && v.Harm }

// checkCount refuses a job whose number of targets was not typed. A job that goes on was confirmed before.
func (j *job) checkCount(v verb, typed string) error {
	if j.wantsCount(v) && j.Cursor == "" && j.Done+j.Refused == 0 && strings.TrimSpace(typed) != strconv.FormatInt(j.Total, 10) {
		return badInput("Type the number " + strconv.FormatInt(j.Total, 10) + ", which says how many are changed.")
	}
	return nil
}

// refuse keeps the text of a refusal, if there is place.
func (j *job) refuse(text string) {
	if len(j.Refusals) < maxRefusals {
		j.Refusals = append(j.Refusals, clip(text, 300))
	}
}

// A field is a hidden field of a form.
type field struct{ Name, Value string }

// Fields are the job as hidden fields, without what the person still types.
func (j *job) Fields() []field {
	fields := []field{
		{"kind", j.Kind}, {"in", j.Source}, {"verb", j.Verb}, {"batch", j.Batch},
		{"total", strconv.FormatInt(j.Total, 10)},
	}
	if j.All() {
		fields = append(fields, field{"which", "all"}, field{"filter", j.Filter.Encode()})
		if !j.Until.IsZero() {
			fields = append(fields, field{"until", strconv.FormatInt(j.Until.UnixNano(), 10)})
		}
	}
	for _, t := range j.Targets {
		fields = append(fields, field{"id", t.ID.String() + ":" + strconv.FormatInt(t.Version, 10)})
	}
	return fields
}

// Progress are further hidden fields, with which the next part goes on.
func (j *job) Progress() []field {
	fields := []field{
		{"reason", j.Reason}, {"step", j.Step}, {"output", j.Output}, {"status", j.Status}, {"body", j.Body},
		{"cursor", j.Cursor}, {"done", strconv.FormatInt(j.Done, 10)}, {"refused", strconv.FormatInt(j.Refused, 10)},
	}
	for _, text := range j.Refusals {
		fields = append(fields, field{"refusal", text})
	}
	return fields
}

// Left is about how many targets the job still has.
func (j *job) Left() int64 { return max(j.Total-j.Done-j.Refused, 0) }

// check refuses a job whose form is not filled in.
func (j *job) check() error {
	switch {
	case j.All() && j.Until.IsZero():
		return badInput("The form is damaged. Nothing was changed.")
	case j.Reason == "":
		return badInput("A reason is required: it goes to the audit log.")
	case len(j.auditReason()) > store.MaxReasonBytes:
		return badInput("The reason is too long: at most 1000 bytes.")
	case !utf8.ValidString(j.Reason) || strings.ContainsRune(j.Reason, 0):
		return badInput("The reason is not text.")
	}
	return nil
}

// auditReason is the reason in the audit log. With the batch's name a person finds all lines of one job.
func (j *job) auditReason() string {
	if j.Batch == "" {
		return j.Reason
	}
	return batchMark(j.Batch) + j.Reason
}

const maxBatchBytes = 16

// batchMark is how the reasons of a batch begin.
func batchMark(batch string) string { return "[batch " + batch + "] " }

// newBatch returns a name for a batch.
func newBatch() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails; a batch named 0 would only be harder to find
	return hex.EncodeToString(b[:])
}
