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
	var in sagaRequest
	key, tenant, err := readStart(r, &in)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	input := order{FP: in.FP, Saga: key.String(), Reject: in.Reject}
	_, err = checkoutSaga.Start(r.Context(), s.sagas, key, input, saga.Scope(tenant))
	answerStart(w, key, err)
}

// answerStart answers a request that starts a saga.
func answerStart(w http.ResponseWriter, key childkey.Key, err error) {
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

func (in *sagaRequest) check() error {
	known := func(info saga.StepInfo) bool { return info.Name == in.Reject }
	if in.Reject != "" && !slices.ContainsFunc(checkoutSaga.Steps(), known) {
		return fmt.Errorf("%w: no step %q to reject", hosting.ErrBadInput, in.Reject)
	}
	return nil
}

// readStart reads the body of a request that starts a saga. The saga is found by the request's key, with the tenant as its scope.
func readStart(r *http.Request, in any) (key childkey.Key, tenant string, err error) {
	if err := hosting.ReadJSON(r, in); err != nil {
		return key, "", err
	}
	key, ok := server.InboundKey(r.Context())
	if !ok {
		return key, "", errors.New("no key in the handler's context")
	}
	if slices.Contains(unaddressable, key.String()) {
		return key, "", fmt.Errorf("%w: the key cannot be in a path", hosting.ErrBadInput)
	}
	tenant, err = hosting.Tenant(r)
	return key, tenant, err
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
	s.show(w, r, checkoutSaga.Name(), func(record journal.Record) (any, error) { return viewOf(record), nil })
}

// show answers with the view of the saga in the path.
func (s *service) show(w http.ResponseWriter, r *http.Request, name string, view func(journal.Record) (any, error)) {
	id, err := addressOf(r, name)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	record, err := s.sagas.Lookup(r.Context(), id)
	if errors.Is(err, saga.ErrNotFound) {
		notFound(w)
		return
	}
	var shown any
	if err == nil {
		shown, err = view(record)
	}
	if err != nil {
		slog.Warn("saga not read", "error", err)
		hosting.WriteError(w, err)
		return
	}
	hosting.WriteJSON(w, http.StatusOK, shown)
}

// addressOf returns the ID of the tenant's saga whose key is in the path. A saga need not be there to have one.
func addressOf(r *http.Request, name string) (journal.ID, error) {
	tenant, err := hosting.Tenant(r)
	if err != nil {
		return journal.ID{}, err
	}
	key, err := childkey.Parse(r.PathValue("key"))
	if err != nil {
		return journal.ID{}, &server.StatusError{Status: http.StatusNotFound, Err: err}
	}
	return journal.IDOf(tenant, name, key), nil
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
