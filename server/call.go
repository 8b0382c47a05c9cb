package server

import (
	"context"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// A call is one call of the engine. It has the route of its request; nil for a task.
type call struct {
	engine.Call
	route *Route
}

// An outcome is the answer to a call. Exactly one holds: it was refused (code), it is a
// replay, or it ran and the adapter serves the answer that its own handler just made.
type outcome struct {
	code       wire.Code
	retryAfter time.Duration
	err        error

	// These fields are for refusals whose code does not say enough.
	status    int    // 0: the code's
	detail    string // "": the code's
	retryable bool   // a retry can help, whatever the code says
	broken    bool   // a function of the service failed: its authors must correct it

	replay *store.Answer

	ran   bool
	again bool // a retry of the run can run again
	asked bool // the store was asked: the key was honoured
}

// do lets the engine answer a call.
func (g *Guard) do(ctx context.Context, c *call) outcome {
	return outcomeOf(g.engine.Do(ctx, &c.Call))
}

func outcomeOf(o engine.Outcome) outcome {
	return outcome{
		code: o.Code, retryAfter: o.RetryAfter, err: o.Err, detail: o.Detail, retryable: o.Retryable,
		replay: o.Replay, ran: o.Ran, again: o.Again, asked: o.Asked,
	}
}

// closingRefusal refuses a request to a guard that is shutting down.
func closingRefusal() *outcome {
	return &outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: ErrShutdown}
}

// resultOf is the result of a handler that answered with status, before its answer is
// encoded.
func resultOf(status int) engine.Result {
	return engine.Result{Answer: store.Answer{Status: status}, Disposition: classify(status)}
}

// classify says what the guard does with an answer of this status. [Effect] has the table.
func classify(status int) engine.Disposition {
	switch {
	case neverStored(status):
		return engine.Release
	case status >= http.StatusInternalServerError:
		return engine.Fail
	default:
		return engine.Store
	}
}

// neverStored reports whether status describes only this attempt, such as its
// caller, its time or its rate, and not the request.
func neverStored(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusMisdirectedRequest, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return false
	}
}
