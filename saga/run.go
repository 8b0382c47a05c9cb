package saga

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// A RunOption says more about one saga.
type RunOption func(*StartRequest)

// Scope keeps the sagas of tenants apart: the same key in two scopes is two
// sagas, and the keys of their calls differ. It names the tenant, from
// authentication and never from what a client sends. It must not change while the
// saga's key lives. The engine's calls have it in their [Info]. A scope has at most
// [MaxScopeBytes] bytes of UTF-8 without NUL; without one the scope is "".
//
// The parent key of a guarded handler's ctx ([childkey.FromContext]) tells tenants
// apart already. The key as it arrived (server.InboundKey) needs a Scope.
func Scope(scope string) RunOption { return func(r *StartRequest) { r.Scope = scope } }

// Request returns what starts the saga with that key and input: for journals
// that store it as part of a transaction of yours. No engine drives it until
// one claims it. Its errors are [ErrInvalidKey] and [ErrEncode], and [ErrNoDefinition]
// of a Definition that [Define] did not make.
func (d *Definition[In, Out]) Request(key childkey.Key, in In, options ...RunOption) (StartRequest, error) {
	p := d.planned()
	if p == nil {
		return StartRequest{}, errNotDefined
	}
	req := StartRequest{Key: key, Name: p.name, Version: p.version, Plan: p.record.Hash}
	for _, option := range options {
		option(&req)
	}
	switch {
	case key.IsZero():
		return req, fmt.Errorf("%w: %w: key", ErrInvalidKey, childkey.ErrEmpty)
	case len(req.Scope) > MaxScopeBytes:
		return req, fmt.Errorf("%w: scope of %d bytes, at most %d", ErrInvalidKey, len(req.Scope), MaxScopeBytes)
	case childkey.CheckScope(req.Scope) != nil:
		return req, fmt.Errorf("%w: %w", ErrInvalidKey, childkey.CheckScope(req.Scope))
	}
	var err error
	if req.Input, err = contract.Encode(in); err != nil {
		return req, fmt.Errorf("%w: %w", ErrEncode, err)
	}
	if len(req.Input) > MaxInputBytes {
		return req, fmt.Errorf("%w: %d bytes, at most %d", ErrEncode, len(req.Input), MaxInputBytes)
	}
	req.ID, req.InputHash = IDOf(req.Scope, req.Name, key), sha256.Sum256(req.Input)
	return req, nil
}

// Run runs the saga with that key. A guarded handler passes the parent key of its
// ctx ([childkey.FromContext]); see [Scope] for any other key. The keys of the
// saga's calls derive from its scope, its definition's name and its key. They
// differ from those of another saga with this key, and of a call beside it.
//
// Run starts the saga, attaches to it if it is under
// way, here or in another process, or returns its stored result. It blocks until
// the saga is over, or ctx ends; the saga goes on without ctx, and Run then
// returns [ErrDetached].
//
// If the saga did not complete the error is an [*Error]: all is undone
// ([ErrCompensated]), or it is [ErrStuck] or [ErrAbandoned]. [ErrKeyReused]
// means that the saga with this key was started with another input,
// [ErrNoResult] that the saga completed and its result is not there,
// [ErrNotFound] that it was swept while Run waited. [ErrCorrupt] means that it is
// over, and that what is stored of it is damaged: nobody knows how it ended.
// [ErrNewer] means that another process must read it, as one with the key it is sealed with.
//
// [ErrNotStarted] means that this call has started nothing, and [ErrFateUnknown]
// that it may have; what an earlier call with the key did, they do not know.
// After both, as after ErrDetached, run it again with the same key. A ctx that
// is over already is its error ([context.Canceled], [context.DeadlineExceeded])
// and no ErrDetached; that, [ErrInvalidKey], [ErrEncode], [ErrNoDefinition] and
// [ErrConfig], of a nil engine, come before the journal has heard of the saga.
//
// Ending ctx stops the waiting only, and no call of the saga.
func (d *Definition[In, Out]) Run(ctx context.Context, e *Engine, key childkey.Key, in In, options ...RunOption) (Out, error) {
	end := d.note(retry.CallsFrom(ctx), key, options)
	out, err := d.run(ctx, e, key, in, options)
	end(outcomeOfChild(err))
	return out, err
}

func (d *Definition[In, Out]) run(ctx context.Context, e *Engine, key childkey.Key, in In, options []RunOption) (Out, error) {
	var none Out
	r, drive, err := d.start(ctx, e, key, in, options, true)
	if err != nil {
		return none, err
	}
	r, own, err := e.wait(ctx, r, drive)
	if err != nil {
		return none, err
	}
	return d.outcome(r, own)
}

// Start starts the saga with that key, or finds it, and returns as soon as that
// is durable. The record is the saga as it was read last: while the journal does not
// answer that may be when this process took it. Its errors are those of Run before
// it waits.
func (d *Definition[In, Out]) Start(ctx context.Context, e *Engine, key childkey.Key, in In, options ...RunOption) (Record, error) {
	end := d.note(retry.CallsFrom(ctx), key, options)
	r, _, err := d.start(ctx, e, key, in, options, false)
	end(retry.Unknown)
	return r, err
}

func (d *Definition[In, Out]) start(
	ctx context.Context, e *Engine, key childkey.Key, in In, options []RunOption, toTheEnd bool,
) (Record, *drive, error) {
	switch {
	case e == nil:
		return Record{}, nil, field("engine", errors.New("nil"))
	case d.planned() == nil:
		return Record{}, nil, errNotDefined
	case ctx.Err() != nil:
		return Record{}, nil, ended(ctx)
	}
	if e.plans[d.plan.record.Hash] != d.plan {
		return Record{}, nil, fmt.Errorf("%w: %s version %d is not among the engine's Definitions", ErrNoDefinition, d.plan.name, d.plan.version)
	}
	req, err := d.Request(key, in, options...)
	if err != nil {
		return Record{}, nil, err
	}
	return e.start(ctx, req, toTheEnd)
}

var errNotDefined = fmt.Errorf("%w: the Definition was not made by Define", ErrNoDefinition)

// outcome returns what became of the saga in r, which is over or stuck. own says that
// this process ended it.
func (d *Definition[In, Out]) outcome(r Record, own bool) (Out, error) {
	var none Out
	switch {
	case r.Corrupt != nil && r.Status != Stuck && r.Status != Abandoned: // nobody knows how it ended
		return none, r.Corrupt
	case r.Status != Completed:
		return none, newError(r)
	case r.Result == nil:
		return none, fmt.Errorf("%w: saga %s %s", ErrNoResult, r.Name, r.ID)
	}
	read := decodeStrictly[Out]
	if own || r.Plan != d.plan.record.Hash { // another version's result may be of another type
		read = decodeLeniently[Out]
	}
	out, err := read(r.Result)
	if err != nil {
		return out, fmt.Errorf("%w: saga %s %s: %w", ErrNoResult, r.Name, r.ID, err)
	}
	return out, nil
}

// find returns the saga of req if it is there, for an engine that cannot start one
// because it has no lease.
func (e *Engine) find(ctx context.Context, req StartRequest) (Record, *drive, error) {
	r, err := e.journal.Read(ctx, req.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return Record{}, nil, notStarted(fmt.Errorf("the engine has no lease now: %w", ErrLeaseLost))
	case err != nil:
		return Record{}, nil, notStarted(fmt.Errorf("the engine has no lease now: %w: %w", ErrLeaseLost, err))
	}
	return r, e.driven(r.ID), same(&r, &req)
}

func notStarted(cause error) error { return fmt.Errorf("%w: %w", ErrNotStarted, cause) }

// same returns ErrKeyReused unless r is what req asks for. Another version of
// the saga is the same one. Where the hash cannot be read it returns why: a codec's
// key may be missing in this process.
func same(r *Record, req *StartRequest) error {
	unread := r.InputHash == [32]byte{} || !errors.Is(r.Corrupt, ErrNewer)
	if r.InputHash != req.InputHash && r.Corrupt != nil && unread {
		return r.Corrupt
	}
	if r.InputHash != req.InputHash {
		return fmt.Errorf("%w: saga %s %s", ErrKeyReused, r.Name, r.ID)
	}
	return nil
}

// wait returns the saga once it is over or stuck, and whether it came to that in this
// process. r is how it was seen last, and d what drives it in this process, if anything
// does.
func (e *Engine) wait(ctx context.Context, r Record, d *drive) (last Record, own bool, err error) {
	next, failures := shortPause(e.cfg.Poll), 0
	for r.Status.Driven() {
		if d != nil && d.owner.Fence >= r.Fence { // else it is one that is about to notice
			select {
			case <-d.over:
			case <-d.gone:
			case <-d.life.ctx.Done(): // a step's function may take its time to notice
			case <-ctx.Done():
				return r, false, detached(ended(ctx))
			}
			if d.isOver() && d.err == nil {
				return d.final, true, nil
			}
		}
		if r, err = e.readAndPause(ctx, r, &next, &failures); err != nil {
			return r, false, err
		}
		d = e.driven(r.ID)
	}
	return r, false, nil
}

// readAndPause reads the saga, and waits for a while unless it is over, or is driven in this
// process. It listens before it reads, so that no drive comes and goes unheard in between.
func (e *Engine) readAndPause(ctx context.Context, r Record, next *time.Duration, failures *int) (Record, error) {
	b := e.listen(r.ID)
	defer e.unlisten(r.ID, b)
	seen, err := e.journal.Read(ctx, r.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return r, err
	case err == nil:
		r, *failures = seen, 0
	case *failures == 2:
		return r, detached(err)
	default:
		*failures++
	}
	if err := e.mayWait(r); err != nil {
		return r, err
	}
	if d := e.driven(r.ID); !r.Status.Driven() || d != nil && d.owner.Fence >= r.Fence && d.life.ctx.Err() == nil {
		return r, nil
	}
	pause := *next
	*next = min(2*pause, e.cfg.Poll)
	if asleep := r.asleepFor(); asleep > pause {
		pause, *next = min(asleep, sleepPolls*e.cfg.Poll), shortPause(e.cfg.Poll)
	}
	if !e.pauseFor(ctx, b, pause) {
		return r, detached(ended(ctx))
	}
	return r, nil
}

// shortPause is how long a waiting Run waits before it looks for the second time.
func shortPause(poll time.Duration) time.Duration { return min(20*time.Millisecond, poll) }

// sleepPolls is how many Polls pass between the looks at a saga that sleeps. It ends sooner
// only if a person wakes it.
const sleepPolls = 10

// asleepFor returns for how long nobody may claim the saga; 0 or less if somebody may.
func (r *Record) asleepFor() time.Duration {
	if !r.Engine.IsZero() {
		return 0
	}
	return r.WakeAt.Sub(r.Now)
}

// mayWait returns why it is no use to wait for r.
func (e *Engine) mayWait(r Record) error {
	if !r.Status.Driven() {
		return nil
	}
	if e.plans[r.Plan] == nil {
		return fmt.Errorf("%w: saga %s version %d is parked, or driven elsewhere", ErrNoDefinition, r.Name, r.Version)
	}
	select {
	case <-e.closing:
		return detached(ErrClosed)
	default:
		return nil
	}
}

// ended returns why ctx, which has ended, did: it matches what ctx.Err returns, and the
// cause that was given for it too.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func detached(cause error) error { return fmt.Errorf("%w: %w", ErrDetached, cause) }
