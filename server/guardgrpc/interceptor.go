package guardgrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// An Interceptor guards the methods of services. Make one with [New]. It is safe for concurrent
// use, and one Interceptor can serve grpc-go and connect-go in one process.
type Interceptor struct {
	guard   *server.Guard
	scope   ScopeFunc
	methods map[string]*method
	keep    []string // the metadata to replay
}

// New returns an Interceptor that lets guard decide. It does no I/O. Its error is a
// [*server.ConfigError].
func New(guard *server.Guard, cfg Config) (*Interceptor, error) {
	switch {
	case guard == nil:
		return nil, reject("guard", "nil", "a Guard is required")
	case cfg.Scope == nil:
		return nil, reject("Config.Scope", "nil", "a ScopeFunc is required: use Unscoped if all callers may see each other's answers")
	}
	keep, err := checkReplayed(cfg.ReplayMetadata)
	if err != nil {
		return nil, err
	}
	methods, err := cfg.methods(guard)
	if err != nil {
		return nil, err
	}
	return &Interceptor{guard: guard, scope: cfg.Scope, methods: methods, keep: keep}, nil
}

// A request is one call of a guarded method, in either protocol.
type request struct {
	method *method
	// header returns the lines of the call's metadata. It takes a name in any case.
	header func(name string) []string
	in     any
	// run calls the handler. It may be called again after a conflict.
	run func(ctx context.Context) (answer, error)
}

// An outcome is the answer to a call, or its refusal.
type outcome struct {
	answer *answer // nil: refused
	// status is the status of a refusal.
	status *spb.Status
	// err is the handler's own error of this call; nil if the answer is a repetition.
	err             error
	header, trailer metadata // of the guard
}

// do answers a call of a guarded method.
func (i *Interceptor) do(ctx context.Context, r *request) outcome {
	task, key, input, refused := i.admit(ctx, r)
	if refused != nil {
		return refused.outcome()
	}
	ctx, cancel := i.inbound(ctx, r)
	defer cancel()
	var last answer
	var failed error
	rewind := r.keepMessage()
	stored, replayed, err := i.guard.Do(ctx, task, key, input, func(ctx context.Context) (server.Response, error) {
		rewind()
		last, failed = answer{}, nil // of an attempt before
		last, failed = r.run(ctx)
		return i.settle(ctx, r.method, &last, failed)
	})
	var o outcome
	switch {
	case replayed && err == nil:
		o = replayOf(r.method, stored)
	case err != nil:
		o = failure(err, replayed, stored)
	default:
		last.forward = stored.Header.Get(wire.HeaderForward)
		o = ran(&last, failed, stored)
	}
	if key.IsZero() {
		o.unmark()
	}
	return o
}

// keepMessage returns a function to call before each run. It makes the request's message what it is now, because a run that
// is rolled back may have changed it in place.
func (r *request) keepMessage() (rewind func()) {
	if r.method.task.Effect != server.Transactional { // no other class runs twice in one call
		return func() {}
	}
	in, runs := message(r.in), 0
	before := proto.Clone(in)
	return func() {
		if runs++; runs > 1 {
			proto.Reset(in)
			proto.Merge(in, before)
		}
	}
}

// inbound returns ctx with the limits that the caller sent. It ends a little before the caller's
// deadline, so that a duplicate that waits is answered in time. A run is not bounded by it.
func (i *Interceptor) inbound(ctx context.Context, r *request) (context.Context, context.CancelFunc) {
	in := wire.ParseInbound(r.header)
	deadline, ok := ctx.Deadline()
	if ok && (in.Deadline.IsZero() || deadline.Before(in.Deadline)) {
		in.Deadline = deadline
	}
	ctx = wire.NewContext(ctx, in)
	if in.Deadline.IsZero() {
		return ctx, func() {}
	}
	left := time.Until(in.Deadline)
	return context.WithDeadline(ctx, in.Deadline.Add(-min(left/10, answerMargin)))
}

// answerMargin is the longest time that is left for an answer to travel before the caller's deadline.
const answerMargin = 250 * time.Millisecond

// settle returns what the guard stores of a run.
func (i *Interceptor) settle(ctx context.Context, m *method, a *answer, failed error) (server.Response, error) {
	var status *server.StatusError
	switch {
	case failed == nil && a.message == nil:
		return server.Response{}, fmt.Errorf("%w: the handler returned no proto message", server.ErrNotStorable)
	case failed == nil && a.message.ProtoReflect().Descriptor().FullName() != m.output.Descriptor().FullName():
		return server.Response{}, fmt.Errorf("%w: the handler returned a %s", server.ErrNotStorable, a.message.ProtoReflect().Descriptor().FullName())
	case errors.As(failed, &status), errors.Is(failed, server.ErrNotStorable):
		return server.Response{}, failed
	case failed != nil:
		a.status = statusProto(failed)
		if a.status.GetCode() == int32(codes.OK) { // grpc-go would answer UNKNOWN
			a.status = &spb.Status{Code: int32(codes.Unknown), Message: "the handler returned an error with the code OK"}
		}
		if errors.Is(failed, wire.ErrNotRetryable) {
			_ = server.Settle(ctx, server.NotRetryable()) // the ctx is a run's
		}
	}
	response, err := a.response(i.keep)
	if err != nil {
		return server.Response{}, fmt.Errorf("%w: %w", server.ErrNotStorable, err)
	}
	return response, nil
}

// ran is the outcome of a call that ran; stored is what the guard makes of its answer.
func ran(a *answer, failed error, stored server.Response) outcome {
	o := outcome{answer: a, err: failed, header: metadata{}, trailer: metadata{}}
	o.mark(false)
	o.forward(a)
	if a.status != nil {
		o.advise(stored.Header.Get(wire.HeaderShouldRetry) == "true")
	}
	return o
}

// replayOf is the outcome of a call that ran before.
func replayOf(m *method, stored server.Response) outcome {
	a, err := readAnswer(m, stored)
	if err != nil {
		return refuse(wire.RecordUnreadable, err).outcome()
	}
	o := outcome{answer: a, header: metadata{}, trailer: metadata{}}
	o.header.add(a.header)
	o.trailer.add(a.trailer)
	o.mark(true)
	o.forward(a)
	if a.status != nil {
		o.advise(false)
	}
	return o
}

// failure is the outcome of a call for which the guard returned an error.
func failure(err error, replayed bool, stored server.Response) outcome {
	var refused *server.RefusedError
	var status *server.StatusError
	switch {
	case errors.As(err, &refused):
		r := &refusedError{RefusedError: *refused, status: refusalStatus(refused)}
		o := r.outcome()
		if refused.Code != wire.StoreUnavailable && refused.Code != wire.NotClaimed {
			o.mark(false)
		}
		return o
	case errors.As(err, &status):
		a := &answer{status: problemStatus(status)}
		if replayed {
			o := outcome{answer: a, header: metadata{}, trailer: metadata{}}
			o.mark(true)
			o.advise(false)
			return o
		}
		return ran(a, nil, stored)
	case errors.Is(err, server.ErrNotStorable):
		return refuse(wire.NotStorable, err).outcome()
	default:
		return refuse(wire.StoreUnavailable, err).outcome()
	}
}

// outcome returns the refusal as an answer.
func (r *refusedError) outcome() outcome {
	o := outcome{status: r.status, header: metadata{}, trailer: metadata{}}
	o.header[lower(wire.HeaderCode)] = []string{string(r.Code)}
	o.advise(r.Retryable())
	if wait, ok := retryAfter(&r.RefusedError); ok {
		lines := make(map[string][]string, 2)
		wire.SetRetryAfter(lines, wait)
		o.header.add(lines)
	}
	return o
}

// mark says that the key was honoured, and whether the answer is a repetition.
func (o *outcome) mark(replayed bool) {
	o.header[lower(wire.HeaderReplayed)] = []string{strconv.FormatBool(replayed)}
}

// unmark takes off what only answers under a key have.
func (o *outcome) unmark() {
	delete(o.header, lower(wire.HeaderReplayed))
	if o.answer != nil {
		delete(o.header, lower(wire.HeaderShouldRetry))
		delete(o.header, lower(wire.HeaderXShouldRetry))
		delete(o.trailer, pushback)
	}
}

// forward tells the caller of an undo what became of the forward call.
func (o *outcome) forward(a *answer) {
	if a.forward != "" {
		o.header[lower(wire.HeaderForward)] = []string{a.forward}
	}
}

// pushback is the trailer that tells gRPC's own retries to wait, or to stop (gRFC A6).
const pushback = "grpc-retry-pushback-ms"

// advise says whether a retry can help.
func (o *outcome) advise(again bool) {
	text := []string{strconv.FormatBool(again)}
	o.header[lower(wire.HeaderShouldRetry)] = text
	o.header[lower(wire.HeaderXShouldRetry)] = text
	if !again {
		o.trailer[pushback] = []string{"-1"}
	}
}

// fails returns the status that the caller gets; nil for an answer with a message.
func (o *outcome) fails() *spb.Status {
	if o.answer == nil {
		return o.status
	}
	return o.answer.status
}

func lower(name string) string { return strings.ToLower(name) }
