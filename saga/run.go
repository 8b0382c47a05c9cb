package saga

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A RunOption says more about one saga.
type RunOption func(*journal.StartRequest)

// Scope keeps the sagas of tenants apart: the same key in two scopes is two sagas, and the keys
// of their calls differ. It names the tenant, from authentication and never from a client's
// message. It must not change while the saga's key lives. The engine's calls have it in their
// [Info]. A scope has at most [journal.MaxScopeBytes] bytes of UTF-8 without NUL; without one the
// scope is "".
//
// The parent key of a guarded handler's ctx ([childkey.FromContext]) tells tenants
// apart already. The key as it arrived (server.InboundKey) needs a Scope.
func Scope(scope string) RunOption { return func(r *journal.StartRequest) { r.Scope = scope } }

// Request returns what starts the saga with that key and input: for journals
// that store it as part of a transaction of yours. No engine executes it until
// one claims it. Its errors are [ErrInvalidKey], [ErrEncode] and [ErrConfig] (of [StartAt]), and [ErrNoDefinition]
// of a Definition that [Define] did not make.
func (d *Definition[In, Out]) Request(key childkey.Key, in In, options ...RunOption) (journal.StartRequest, error) {
	p := d.enginePlan()
	if p == nil {
		return journal.StartRequest{}, errNotDefined
	}
	req := journal.StartRequest{Key: key, Name: p.Name, Version: p.Version, Plan: p.Record.Hash}
	for _, option := range options {
		option(&req)
	}
	switch {
	case key.IsZero():
		return req, fmt.Errorf("%w: %w", ErrInvalidKey, errtext.Inner(childkey.ErrEmpty))
	case len(req.Scope) > journal.MaxScopeBytes:
		return req, fmt.Errorf("%w: scope of %d bytes, at most %d", ErrInvalidKey, len(req.Scope), journal.MaxScopeBytes)
	case childkey.CheckScope(req.Scope) != nil:
		return req, fmt.Errorf("%w: %w", ErrInvalidKey, errtext.Inner(childkey.CheckScope(req.Scope)))
	case time.Until(req.At) > MaxDuration:
		return req, field("StartAt", graph.TooLong(time.Until(req.At)))
	}
	var err error
	if req.Input, err = contract.Encode(in); err != nil {
		return req, fmt.Errorf("%w: %w", ErrEncode, errtext.Inner(err))
	}
	if len(req.Input) > journal.MaxInputBytes {
		return req, fmt.Errorf("%w: %d bytes, at most %d", ErrEncode, len(req.Input), journal.MaxInputBytes)
	}
	req.ID, req.InputHash = journal.IDOf(req.Scope, req.Name, key), sha256.Sum256(req.Input)
	return req, nil
}

// Run runs the saga with that key. It starts the saga, attaches to it if it is
// running, here or in another process, or returns its stored result. It blocks until
// the saga is over, or ctx ends. The end of ctx ends only the wait: the saga goes on without
// it, and Run returns [ErrDetached].
//
// A guarded handler passes the parent key of its ctx ([childkey.FromContext]); see [Scope] for
// any other key. The keys of the saga's calls derive from its scope, its definition's name and
// its key. They differ from those of another saga with this key, and of a call beside it.
//
// If the saga did not complete, the error is an [*Error]: all is undone
// ([ErrCompensated]), or it is [ErrStuck] or [ErrAbandoned]. The other errors are:
//
//   - [ErrKeyReused]: the saga with this key was started with another input.
//   - [ErrNoResult]: the saga completed, and its result is not there, or is not of type Out. The latter
//     happens to the result of another version of the definition.
//   - [ErrNotFound]: the saga was swept while Run waited.
//   - [ErrCorrupt]: the saga is over, and its record is damaged. Nobody knows how it ended.
//   - [ErrNewer]: another process must read the record, such as one with the key that it is
//     sealed with.
//   - [ErrNotStarted]: this call has started nothing. An earlier call with the key may have.
//   - [ErrFateUnknown]: this call may have started the saga.
//
// A saga may sleep for months ([Sleep], [StartAt]), and Run waits for that, too. The text of ErrDetached then says until when
// it sleeps. Start such a saga with [Definition.Start], and Run it for its result when it is due.
//
// After ErrDetached, ErrNotStarted and ErrFateUnknown, run the saga again with the same key.
//
// Some errors come before the journal has heard of the saga: [ErrInvalidKey], [ErrEncode],
// [ErrNoDefinition], and [ErrConfig] for a nil engine. If ctx has ended already, its error
// ([context.Canceled], [context.DeadlineExceeded]) is returned, and no ErrDetached.
func (d *Definition[In, Out]) Run(ctx context.Context, e *Engine, key childkey.Key, in In, options ...RunOption) (Out, error) {
	end := d.note(retry.CallsFrom(ctx), key, options)
	out, err := d.run(ctx, e, key, in, options)
	end(outcomeOfChild(err))
	return out, err
}

func (d *Definition[In, Out]) run(ctx context.Context, e *Engine, key childkey.Key, in In, options []RunOption) (Out, error) {
	var none Out
	req, err := d.request(ctx, e, key, in, options)
	if err != nil {
		return none, err
	}
	r, own, err := e.core.Run(ctx, req)
	if err != nil {
		return none, err
	}
	return d.outcome(r, own)
}

// Start starts the saga with that key, or finds it, and returns as soon as that
// is durable. The record is the saga as it was read last: while the journal does not
// answer that may be when this process took it. Its errors are those of Run before
// it waits.
func (d *Definition[In, Out]) Start(ctx context.Context, e *Engine, key childkey.Key, in In, options ...RunOption) (journal.Record, error) {
	end := d.note(retry.CallsFrom(ctx), key, options)
	defer end(retry.Unknown)
	req, err := d.request(ctx, e, key, in, options)
	if err != nil {
		return journal.Record{}, err
	}
	return e.core.Start(ctx, req)
}

// request returns the request that starts the saga in e.
func (d *Definition[In, Out]) request(
	ctx context.Context, e *Engine, key childkey.Key, in In, options []RunOption,
) (journal.StartRequest, error) {
	switch {
	case e == nil:
		return journal.StartRequest{}, field("engine", errors.New("nil; use what Open returns"))
	case d.enginePlan() == nil:
		return journal.StartRequest{}, errNotDefined
	case ctx.Err() != nil:
		return journal.StartRequest{}, engine.Ended(ctx)
	}
	if !e.core.Has(d.plan) {
		return journal.StartRequest{}, fmt.Errorf("%w: %s version %d is not among the engine's Definitions", ErrNoDefinition, d.plan.Name, d.plan.Version)
	}
	req, err := d.Request(key, in, options...)
	if err == nil {
		req.Trace = e.core.Trace(ctx)
	}
	return req, err
}

var errNotDefined = fmt.Errorf("%w: the Definition was not made by Define", ErrNoDefinition)

// outcome returns what became of the saga in r, which is over or stuck. own says that
// this process ended it.
func (d *Definition[In, Out]) outcome(r journal.Record, own bool) (Out, error) {
	var none Out
	switch {
	case r.Corrupt != nil && r.Status != journal.Stuck && r.Status != journal.Abandoned: // nobody knows how it ended
		return none, r.Corrupt
	case r.Status != journal.Completed:
		return none, newError(d.plan, r)
	case r.Result == nil:
		return none, fmt.Errorf("%w: saga %s %s", ErrNoResult, r.Name, r.ID)
	}
	read := decodeStrictly[Out]
	switch {
	case r.Plan != d.plan.Record.Hash: // another version's result may be of another type
		read = decodeExactly[Out]
	case own:
		read = decodeLeniently[Out]
	}
	out, err := read(r.Result)
	if err != nil {
		return none, fmt.Errorf("%w: saga %s %s version %d: %w", ErrNoResult, r.Name, r.ID, r.Version, err)
	}
	return out, nil
}

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
