package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// newSink returns the client of the service at url, which passes the tenant
// on; nil if there is none.
func newSink(url string) (*sdk.Client, error) {
	if url == "" {
		return nil, nil
	}
	return sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"sink": {URL: url, HeaderFunc: hosting.Authorize},
	}})
}

// effectKeyed has its effect in the sink. Run again, it sends the same child
// key, and the sink answers what it answered before. The child key derives from
// the hop key in ctx: two tenants with the same key have two effects there.
func (s *service) effectKeyed(w http.ResponseWriter, r *http.Request) {
	in, err := s.receive(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	body, err := json.Marshal(in)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	resp, err := s.sink.Send(r.Context(), sdk.Request{Service: "sink", Operation: "effect", Path: "/v1/effect", Body: body})
	if err != nil {
		answerFailure(w, err)
		return
	}
	answerWith(w, resp.Status, resp.Header, resp.Body)
}

// answerFailure passes a rejection on, as the sink said it: it is final.
// Anything else is open: the next call runs again and finds out.
func answerFailure(w http.ResponseWriter, err error) {
	failed := new(retry.Error)
	if errors.As(err, &failed) && failed.Outcome == retry.Rejected && failed.Status != 0 {
		answerWith(w, failed.Status, failed.Header, failed.Body)
		return
	}
	slog.Warn("the sink's outcome is open", "error", err)
	w.Header().Set("Retry-After", "1")
	hosting.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "the sink's outcome is not known yet"})
}

func answerWith(w http.ResponseWriter, status int, header http.Header, body []byte) {
	w.Header()["Content-Type"] = header["Content-Type"]
	w.WriteHeader(status)
	_, _ = w.Write(body) // the guard's recorder takes all of it
}
