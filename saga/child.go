package saga

import (
	"errors"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

// note notes in calls that a step's function runs the saga with that key; calls is nil
// where no step does.
func (d *Definition[In, Out]) note(calls *retry.Calls, key childkey.Key, options []RunOption) (end func(retry.Outcome)) {
	p := d.enginePlan()
	if calls == nil || p == nil {
		return func(retry.Outcome) {}
	}
	var req journal.StartRequest
	for _, option := range options {
		option(&req)
	}
	return calls.Begin(journal.IDOf(req.Scope, p.Name, key), true) // what is stored of it speaks for every run
}

// outcomeOfChild returns what a saga left behind that a step's function ran. A saga that
// is compensated left nothing.
func outcomeOfChild(err error) retry.Outcome {
	var failed *Error
	switch {
	case err == nil, errors.Is(err, ErrNoResult):
		return retry.Completed
	case errors.As(err, &failed) && failed.Status == journal.Compensated:
		return retry.Rejected
	}
	return retry.Unknown
}

// childOf returns the saga whose end err is; false if it is another error.
func childOf(err error) (engine.Child, bool) {
	failed, ok := err.(*Error) //nolint:errorlint // the engine walks the tree
	if !ok {
		return engine.Child{}, false
	}
	return engine.Child{ID: failed.ID, Status: failed.Status}, true
}
