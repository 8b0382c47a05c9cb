package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// A verb is one kind of change, in the words of the page.
type verb struct {
	Name        string // Forms send it.
	Label       string // Buttons show it.
	Consequence string // The confirmation says what follows for each key or saga.
	Harm        bool   // It can repeat an effect or leave one behind.
	// The verb needs these values of the person.
	Answer, Step, Output bool
}

// The verbs for keys.
var (
	verbRunAgain = verb{
		Name: "run-again", Label: "Run again (release)", Harm: true,
		Consequence: "The next call with the key runs, whatever happened before. If the effect has happened and the handler does not find it, it happens twice.",
	}
	verbNeverHappened = verb{
		Name: "never-happened", Label: "It never happened", Harm: true,
		Consequence: "You state that no run had an effect. The next call with the key runs, and an undo is told that there is nothing to undo.",
	}
	verbAbandon = verb{
		Name: "abandon", Label: "Abandon (cancel)", Harm: true,
		Consequence: "The key never runs again, although its effect may have happened. Its callers get key-cancelled.",
	}
	verbHappened = verb{
		Name: "happened", Label: "It happened", Answer: true,
		Consequence: "You state that the effect happened once. Every retry gets the answer that you give here.",
	}
	verbForget = verb{
		Name: "forget", Label: "Forget", Harm: true,
		Consequence: "The record and its answer are deleted. The next call with the key runs, also if its effect has happened.",
	}
	verbForgetLetter = verb{
		Name: "forget", Label: "Run again (forget the dead letter)", Harm: true,
		Consequence: "The record of the dead letter is deleted. If the broker delivers the message again, its handler runs again.",
	}
)

// keyVerbs are the verbs for keys, by their names.
var keyVerbs = byName(verbRunAgain, verbNeverHappened, verbAbandon, verbHappened, verbForget)

func byName(verbs ...verb) map[string]verb {
	m := make(map[string]verb, len(verbs))
	for _, v := range verbs {
		m[v.Name] = v
	}
	return m
}

// needsDecision reports whether a person decides what became of the key.
func needsDecision(k *keyRow) bool {
	return k.State == store.StateUnknown || k.State == store.StateQuarantined || k.Dead()
}

// keyListVerbs are the verbs that fit the keys of a list.
func keyListVerbs(state string) []verb {
	switch state {
	case stateAttention, stateUnknown, stateQuarantined, store.StateInProgress.String():
		return []verb{verbRunAgain, verbNeverHappened, verbAbandon, verbForget}
	case stateDeadLetter:
		return []verb{verbForgetLetter}
	default:
		return []verb{verbForget}
	}
}

// keyVerbsFor are the verbs that fit one key. answers: the guard can store an answer that a person gives.
func keyVerbsFor(k *keyRow, answers bool) []verb {
	switch {
	case needsDecision(k) && answers:
		return []verb{verbRunAgain, verbNeverHappened, verbHappened, verbAbandon, verbForget}
	case needsDecision(k):
		return []verb{verbRunAgain, verbNeverHappened, verbAbandon, verbForget}
	case k.State == store.StateInProgress:
		return nil // its owner lives
	default:
		return []verb{verbForget}
	}
}

// keyWork does the verbs for keys of one store.
type keyWork struct{ store *Store }

// page implements workshop. Keys that came after the confirmation are left out: nobody confirmed them.
func (k keyWork) page(ctx context.Context, j *job, cursor string, limit int) ([]target, string, error) {
	f, err := parseKeyFilter(j.Filter)
	if err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	records, err := k.store.Reader.List(ctx, f.listRequest(at, limit))
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, 0, len(records))
	for i := range records {
		if j.includes(records[i].CreatedAt, records[i].Now) {
			targets = append(targets, keyTarget(&records[i]))
		}
	}
	if n := len(records); n == limit {
		return targets, cursorText(store.Cursor{CreatedAt: records[n-1].CreatedAt, ID: records[n-1].ID}), nil
	}
	return targets, "", nil
}

func keyTarget(r *store.Record) target {
	text := r.ID.String() + ", " + toWords(r.State.String())
	if r.Route != "" {
		text += ", " + r.Route
	}
	return target{r.ID, r.Fence, text}
}

// show implements workshop.
func (k keyWork) show(ctx context.Context, t named) (target, error) {
	rec, err := k.store.Reader.Show(ctx, t.ID)
	if errors.Is(err, store.ErrNotFound) {
		return target{t.ID, t.Version, t.ID.String() + ", gone"}, nil
	}
	return keyTarget(&rec), err
}

// move implements workshop. It is a compare-and-set on the fence, so a repeated move changes nothing.
func (k keyWork) move(ctx context.Context, j *job, t target, actor string) (string, error) {
	by := store.Audit{Actor: actor, Reason: j.auditReason()}
	var err error
	if j.Verb == verbForget.Name {
		err = k.store.Guard.Forget(ctx, t.ID, t.Version, by)
	} else {
		var r server.Resolution
		if r, err = resolutionOf(j); err == nil {
			err = k.store.Guard.Resolve(ctx, t.ID, t.Version, r, by)
		}
	}
	var moved *server.MovedOnError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &moved):
		return "has changed since: it is " + toWords(moved.State.String()) + " with fence " + strconv.FormatInt(moved.Fence, 10), nil
	case errors.Is(err, store.ErrNotFound):
		return "there is no such record any more", nil
	case errors.Is(err, store.ErrArgument), errors.Is(err, store.ErrInProgress), isBadInput(err):
		return clip(err.Error(), 200), nil
	default:
		return "", err
	}
}

// resolutionOf is the decision of a job.
func resolutionOf(j *job) (server.Resolution, error) {
	switch j.Verb {
	case verbRunAgain.Name:
		return server.RunAgain(), nil
	case verbNeverHappened.Name:
		return server.NeverHappened(), nil
	case verbAbandon.Name:
		return server.Abandoned(), nil
	case verbHappened.Name:
		status, err := strconv.Atoi(j.Status)
		if err != nil || status < 200 || status > 999 {
			return server.Resolution{}, badInput("the status of the answer must be 200 to 999")
		}
		r := server.Response{Status: status, Body: []byte(j.Body)}
		if j.Body != "" {
			r.Header = contentType(j.Body)
		}
		return server.Happened(r), nil
	default:
		return server.Resolution{}, badInput("there is no such verb")
	}
}

func isBadInput(err error) bool {
	var b badInput
	return errors.As(err, &b)
}

// contentType is the media type of an answer that a person typed: JSON if it is JSON.
func contentType(body string) http.Header {
	if json.Valid([]byte(body)) {
		return http.Header{"Content-Type": {"application/json"}}
	}
	return http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
}
