package server

import (
	"errors"
	"fmt"
	"runtime"
)

var errRedact = errors.New("server: Redact returned an error")

// redactor returns the route's Redact for a call, observed, or nil. A panic is an
// error of it, for the work is done: going on with it would make the next call do
// it again.
func (h *guarded) redactor(c *call) func(Response) (Response, error) {
	if h.route.Redact == nil {
		return nil
	}
	return func(r Response) (stored Response, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = panicked("Redact", v)
			}
			if err != nil {
				h.guard.observe(Event{Kind: EventRedactError, Route: c.route.Name, ID: c.id, Err: err})
			}
		}()
		if stored, err = h.route.Redact(r); err != nil {
			return Response{}, errRedact // its own text may hold the body
		}
		return stored, nil
	}
}

// panicked is the error for a panic of a callback that sees answers. Only the
// runtime's own values have a text that cannot hold a part of one.
func panicked(callback string, v any) error {
	if err, ok := v.(runtime.Error); ok {
		return fmt.Errorf("server: %s panicked: %w", callback, err)
	}
	return fmt.Errorf("server: %s panicked with a %T", callback, v)
}
