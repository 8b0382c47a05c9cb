package hosting

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// ErrBadInput: the request's body is not what the route takes.
var ErrBadInput = errors.New("bad input")

// ErrUnavailable: the database did not do its part, and may later.
var ErrUnavailable = errors.New("the database did not answer")

// OfDatabase wraps an error of the database with [ErrUnavailable] if a later call may
// succeed.
func OfDatabase(err error) error {
	if err == nil || isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// isRefused reports whether the server answered that it does not take the statement, as for a
// violated constraint. A broken or refused connection gives no answer.
func isRefused(err error) bool {
	var answer *pgconn.PgError
	var connect *pgconn.ConnectError
	if !errors.As(err, &answer) || errors.As(err, &connect) || errors.Is(err, store.ErrFateUnknown) {
		return false
	}
	switch answer.Code {
	case "40001", "40P01", "55P03", // a conflict with another transaction
		"57014", "57P01", "57P02", "57P03", // canceled, or the server shuts down
		"53300", "25006": // no connection left, or a standby
		return false
	}
	return true
}

// ReadJSON decodes the request's body into v. Its error wraps [ErrBadInput] if
// the body is the caller's fault. The guard bounds the body.
func ReadJSON(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrBadInput, err)
	}
	return nil
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a guarded handler's recorder takes all of it
}

// WriteError answers a handler's error. A bad input is 400, which the guard stores. Other
// errors are 500 or 503: the next call runs again, except for an Opaque handler, whose
// outcome is then unknown.
func WriteError(w http.ResponseWriter, err error) {
	var status *server.StatusError
	if errors.As(err, &status) { // from Tenant
		WriteJSON(w, status.Status, map[string]string{"error": cmp.Or(status.Detail, http.StatusText(status.Status))})
		return
	}
	if errors.Is(err, ErrBadInput) {
		WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if errors.Is(err, ErrUnavailable) {
		w.Header().Set("Retry-After", "1")
		WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": ErrUnavailable.Error()})
		return
	}
	WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": "internal error"})
}
