package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// tenant takes the scope from the credential. A real service looks the credential up.
func tenant(r *http.Request) (string, error) {
	name, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return "", nil
	}
	return name, nil
}

// An input is the body of every request.
type input struct {
	FP     string `json:"fp"`
	Reject bool   `json:"reject,omitempty"` // refuse the call with 402
	Fail   bool   `json:"fail,omitempty"`   // fail the call with 500
}

// A ledger has the handlers.
type ledger struct {
	work time.Duration
	sink *sdk.Client
}

// routes guards the handlers. A Transactional route would be an error here: these stores have no transactions.
func routes(guard *server.Guard, getenv func(string) string) (http.Handler, error) {
	l := &ledger{}
	if text := getenv("WORK"); text != "" {
		var err error
		if l.work, err = time.ParseDuration(text); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	err := handle(mux, guard, "/v1/effect-opaque", server.Opaque, l.serveOpaque)
	if url := getenv("SINK_URL"); url != "" && err == nil {
		if l.sink, err = newSink(url); err == nil {
			err = handle(mux, guard, "/v1/effect-keyed", server.Keyed, l.serveKeyed)
		}
	}
	return mux, err
}

func handle(mux *http.ServeMux, guard *server.Guard, path string, effect server.Effect, handler http.HandlerFunc) error {
	guarded, err := guard.Handler(effect, handler)
	if err != nil {
		return err
	}
	mux.Handle("POST "+path, guarded)
	return nil
}

// newSink returns the client of the next hop, which has a tenant for this service.
func newSink(url string) (*sdk.Client, error) {
	return sdk.New(sdk.Config{Services: map[string]sdk.Service{"sink": {
		URL: url,
		HeaderFunc: func(_ context.Context, h http.Header) error {
			h.Set("Authorization", "Bearer stores")
			return nil
		},
	}}})
}

// serveOpaque has its effect where the store cannot see it: here it is a line of the log.
func (l *ledger) serveOpaque(w http.ResponseWriter, r *http.Request) {
	in, ok := l.receive(w, r)
	if !ok {
		return
	}
	key, _ := childkey.FromContext(r.Context())
	slog.Info("effect", "key", key, "fp", in.FP)
	answer(w, http.StatusCreated, map[string]string{"effect": key.String()})
}

// serveKeyed has its effect in the sink. Run again, it sends the same child key, and the sink repeats its answer.
func (l *ledger) serveKeyed(w http.ResponseWriter, r *http.Request) {
	in, ok := l.receive(w, r)
	if !ok {
		return
	}
	body, err := json.Marshal(in)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	done, err := l.sink.Send(r.Context(), sdk.Request{Service: "sink", Operation: "effect", Path: "/v1/effect-opaque", Body: body})
	var failed *retry.Error
	switch {
	case err == nil:
		answer(w, done.Status, json.RawMessage(done.Body))
	case errors.As(err, &failed) && failed.Outcome == retry.Rejected && failed.Status != 0:
		answer(w, failed.Status, map[string]string{"error": "the sink refused"})
	default: // the next call runs again and finds out
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "the sink's outcome is not known yet"})
	}
}

// receive reads the body and works. It returns false if it has answered.
func (l *ledger) receive(w http.ResponseWriter, r *http.Request) (in input, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": "the body is no JSON of this service"})
		return in, false
	}
	select {
	case <-time.After(l.work):
	case <-r.Context().Done():
	}
	switch {
	case in.Reject:
		answer(w, http.StatusPaymentRequired, map[string]string{"error": "rejected as asked"})
	case in.Fail:
		answer(w, http.StatusInternalServerError, map[string]string{"error": "failed as asked"})
	default:
		return in, true
	}
	return in, false
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}
