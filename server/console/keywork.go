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

// keyWork does the verbs for keys of one store.
type keyWork struct{ store *Store }

// page implements workshop. Keys that came after the confirmation are left out: nobody confirmed them.
func (w keyWork) page(ctx context.Context, j *job, cursor string, limit int) ([]target, string, error) {
	f, err := parseKeyFilter(j.Filter)
	if err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	var records []store.Record
	if f.Windowed() {
		req := f.browseRequest(j.Until, at, limit)
		if req.To.IsZero() {
			req.To = j.Until
		}
		records, err = w.store.Reader.Browse(ctx, req)
	} else {
		records, err = w.store.Reader.List(ctx, f.listRequest(at, limit))
	}
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, 0, len(records))
	for i := range records {
		if !records[i].CreatedAt.After(j.Until) {
			targets = append(targets, keyTarget(&records[i]))
		}
	}
	if n := len(records); n == limit {
		return targets, cursorText(store.Cursor{CreatedAt: records[n-1].CreatedAt, ID: records[n-1].ID}), nil
	}
	return targets, "", nil
}

func keyTarget(r *store.Record) target {
	text := r.ID.String() + ", " + spaced(r.State.String())
	if r.Route != "" {
		text += ", " + r.Route
	}
	return target{r.ID, r.Fence, text}
}

// show implements workshop.
func (w keyWork) show(ctx context.Context, t named) (target, error) {
	rec, err := w.store.Reader.Show(ctx, t.ID)
	if errors.Is(err, store.ErrNotFound) {
		return target{t.ID, t.Version, t.ID.String() + ", gone"}, nil
	}
	return keyTarget(&rec), err
}

// move implements workshop. It is a compare-and-set on the fence, so a repeated move changes nothing.
func (w keyWork) move(ctx context.Context, j *job, t target, actor string) (string, error) {
	by := store.Audit{Actor: actor, Reason: j.audited()}
	var err error
	if j.Verb == verbForget.Name {
		err = w.store.Guard.Forget(ctx, t.ID, t.Version, by)
	} else {
		var r server.Resolution
		if r, err = resolutionOf(j); err == nil {
			err = w.store.Guard.Resolve(ctx, t.ID, t.Version, r, by)
		}
	}
	var moved *server.MovedOnError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &moved):
		return "has changed since: it is " + spaced(moved.State.String()) + " with fence " + strconv.FormatInt(moved.Fence, 10), nil
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
