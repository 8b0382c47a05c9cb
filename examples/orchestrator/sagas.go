package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server"
)

// A sagaRequest is the body of POST /v1/sagas.
type sagaRequest struct {
	FP     string `json:"fp"`
	Reject string `json:"reject"`
}

// unaddressable are keys that no URL path can carry, however they are encoded: a
// saga that nobody could ask for is not begun.
var unaddressable = []string{".", "..", "/"}

// startSaga begins the saga whose key is the request's, and does not wait for it. A
// repeat, also in another process, finds the saga that the first one began.
func (s *service) startSaga(w http.ResponseWriter, r *http.Request) {
	in, key, err := readSaga(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	tenant, err := hosting.Tenant(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	input := order{FP: in.FP, Saga: key.String(), Reject: in.Reject}
	_, err = checkoutSaga.Start(r.Context(), s.sagas, key, input, saga.Scope(tenant))
	switch {
	case errors.Is(err, saga.ErrKeyReused): // by a request that the guard no longer remembers
		writeProblem(w, wire.NewProblem(wire.KeyReused, "The key is that of a saga with another input."))
	case err != nil:
		slog.Warn("saga not started", "error", err)
		w.Header().Set("Retry-After", "1") // it may have been: the next call finds out
		hosting.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "not started"})
	default:
		hosting.WriteJSON(w, http.StatusAccepted, map[string]string{"saga": key.String()})
	}
}

func writeProblem(w http.ResponseWriter, p wire.Problem) {
	w.Header().Set("Content-Type", wire.ProblemContentType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.JSON()) // the guard's recorder takes all of it
}

func readSaga(r *http.Request) (in sagaRequest, key childkey.Key, err error) {
	if err := hosting.ReadJSON(r, &in); err != nil {
		return in, key, err
	}
	known := func(info saga.StepInfo) bool { return info.Name == in.Reject }
	if in.Reject != "" && !slices.ContainsFunc(checkoutSaga.Steps(), known) {
		return in, key, fmt.Errorf("%w: no step %q to reject", hosting.ErrBadInput, in.Reject)
	}
	key, ok := server.InboundKey(r.Context()) // with the tenant as its scope, the saga is found by it
	if !ok {
		return in, key, errors.New("no key in the handler's context")
	}
	if slices.Contains(unaddressable, key.String()) {
		return in, key, fmt.Errorf("%w: the key cannot be in a path", hosting.ErrBadInput)
	}
	return in, key, nil
}

// A sagaView is the answer to GET /v1/sagas/{key}.
type sagaView struct {
	Saga   string     `json:"saga"`
	Status string     `json:"status"`
	Steps  []stepView `json:"steps"`
}

type stepView struct {
	Step    string `json:"step"`
	Outcome string `json:"outcome,omitempty"` // "": not known yet
	Undo    string `json:"undo,omitempty"`    // "": not begun, or there is none
}

// showSaga says where a saga stands. Those of other tenants are not there.
func (s *service) showSaga(w http.ResponseWriter, r *http.Request) {
	tenant, err := hosting.Tenant(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	key, err := childkey.Parse(r.PathValue("key"))
	if err != nil {
		notFound(w)
		return
	}
	record, err := s.sagas.Lookup(r.Context(), journal.IDOf(tenant, checkoutSaga.Name(), key))
	switch {
	case errors.Is(err, saga.ErrNotFound):
		notFound(w)
	case err != nil:
		slog.Warn("saga not read", "error", err)
		hosting.WriteError(w, err)
	default:
		hosting.WriteJSON(w, http.StatusOK, viewOf(record))
	}
}

func notFound(w http.ResponseWriter) {
	hosting.WriteJSON(w, http.StatusNotFound, map[string]string{"error": "no such saga"})
}

func viewOf(r journal.Record) sagaView {
	view := sagaView{Saga: r.Key.String(), Status: r.Status.String(), Steps: []stepView{}}
	for _, step := range checkoutSaga.Steps() {
		v := stepView{Step: step.Name}
		for _, e := range r.Entries {
			switch {
			case e.Step != step.Name:
			case e.Undo:
				v.Undo = outcomeText(e)
			default:
				v.Outcome = outcomeText(e)
			}
		}
		view.Steps = append(view.Steps, v)
	}
	return view
}

func outcomeText(e journal.Entry) string {
	if e.Pending {
		return "Pending"
	}
	return e.Outcome.String()
}
