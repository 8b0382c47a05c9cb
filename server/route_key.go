package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// ErrNoKey is what a [Route.Key] returns, wrapped or not, for a request that names no
// key. The request is refused with key-missing.
var ErrNoKey = errors.New("server: the request names no key")

var (
	errKeyRefused  = errors.New("server: Route.Key refused the request") // its own text may hold the body
	errKeyEmpty    = errors.New("server: Route.Key returned no key and no error")
	errKeyUnstable = errors.New("server: Route.Key returned two keys for one request")
	errKeyDiffers  = errors.New("server: Route.Key returned another key than the request's Idempotency-Key header has")
)

// keyOf returns the key that the route's own function reads from the request.
//
// The function is asked twice. A retry is the same request once more: a function that
// names another key for it would have its effect happen twice.
func (h *guarded) keyOf(r *http.Request, body []byte) (childkey.Key, *outcome) {
	text, err := h.callKey(r, body)
	var again string
	if err == nil {
		again, err = h.callKey(r, body)
	}
	var failed *panicError
	switch {
	case errors.As(err, &failed):
		return childkey.Key{}, brokenKey(err)
	case errors.Is(err, ErrNoKey):
		return childkey.Key{}, &outcome{code: wire.KeyMissing, detail: "The request names no idempotency key where this service looks for it. This attempt ran nothing."}
	case err != nil:
		return childkey.Key{}, refusedBy(err, errKeyRefused)
	case text == "" || again == "":
		return childkey.Key{}, brokenKey(errKeyEmpty)
	case text != again:
		return childkey.Key{}, brokenKey(errKeyUnstable)
	}
	key, err := childkey.Parse(text)
	if err != nil {
		return childkey.Key{}, &outcome{code: wire.KeyInvalid, err: err}
	}
	inHeader, present, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderKey))
	if present && (err != nil || inHeader != key) {
		return childkey.Key{}, brokenKey(errKeyDiffers)
	}
	return key, nil
}

// refusedBy refuses a request that a function of the route cannot read. err's own text may
// hold the body, so that the log gets instead; a [StatusError] says what the caller gets.
func refusedBy(err, instead error) *outcome {
	out := outcome{code: wire.KeyInvalid, err: instead}
	var status *StatusError
	if errors.As(err, &status) && status.Status >= 400 && status.Status < 500 && !passes(status.Status) {
		out.status, out.detail = status.Status, status.Detail
	}
	return &out
}

// A panicError is a panic of a function that the route was given.
type panicError struct{ err error }

func (e *panicError) Error() string { return e.err.Error() }

// callKey calls the route's function. Its panic is an error.
func (h *guarded) callKey(r *http.Request, body []byte) (text string, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = "", &panicError{panicked("Route.Key", v)}
		}
	}()
	return h.route.Key(r, body)
}

// brokenKey refuses a request whose key the service cannot name. It never runs: nobody
// could tell its retry from another request.
func brokenKey(err error) *outcome {
	return &outcome{
		code: wire.KeyInvalid, status: http.StatusInternalServerError, broken: true, err: err,
		detail: "The service cannot tell the key of this request. This attempt ran nothing. Report the instance to the service.",
	}
}

// checkKey applies the rules for keys of the guard and of the route.
func (h *guarded) checkKey(key childkey.Key) error {
	switch {
	case len(key.String()) < h.guard.cfg.MinKeyBytes:
		return errShortKey
	case h.guard.cfg.KeyPolicy != nil && h.guard.cfg.KeyPolicy(key) != nil, h.route.KeyPolicy != nil && h.route.KeyPolicy(key) != nil:
		return errKeyPolicy
	}
	return nil
}

// readForward reads the forward key of an undo.
func (h *guarded) readForward(r *http.Request, c *call) error {
	forward, _, err := wire.ParseKeyHeader(r.Header.Values(wire.HeaderCancels))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errBadForward, err)
	case forward == c.key:
		return errSelfUndo
	}
	c.forward = forward
	return nil
}
