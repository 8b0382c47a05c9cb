package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// A MovedOnError is returned by [Guard.Resolve] and [Guard.Forget] if the record changed after the decision was made.
// Resolve and Forget changed nothing: look again.
type MovedOnError struct {
	ID    store.ID
	State State // now
	Fence int64 // now
}

// Error implements error.
func (e *MovedOnError) Error() string {
	return fmt.Sprintf("server: key %v has moved on: it is %v, with fence %d: look it up again", e.ID, e.State, e.Fence)
}

// checkAudit returns the audit of a move with verb, checked. Its Actor and Reason must
// be text.
func checkAudit(a store.Audit, verb store.Verb) (store.Audit, error) {
	if a.Verb != "" && a.Verb != verb {
		return store.Audit{}, fmt.Errorf("%w: Verb is %q: leave it empty, the method sets it", ErrArgument, a.Verb)
	}
	for _, field := range []struct {
		name, value string
		most        int
	}{{"Actor", a.Actor, store.MaxActorBytes}, {"Reason", a.Reason, store.MaxReasonBytes}} {
		if strings.TrimSpace(field.value) == "" || len(field.value) > field.most {
			return store.Audit{}, fmt.Errorf("%w: %s has %d bytes, must have 1 to %d", ErrArgument, field.name, len(field.value), field.most)
		}
		if !utf8.ValidString(field.value) || strings.ContainsRune(field.value, 0) {
			return store.Audit{}, fmt.Errorf("%w: %s is not UTF-8 text without NUL", ErrArgument, field.name)
		}
	}
	return store.Audit{Verb: verb, Actor: a.Actor, Reason: a.Reason}, nil
}

// Resolve carries out r for a key that is unknown or quarantined, or whose owner is dead. The decision was made for a
// record ([Guard.ListStuck], [Guard.Lookup]); fence is the fence of that record. If the record has moved on, Resolve
// returns a [*MovedOnError] and changes nothing. Other errors wrap [ErrArgument], [ErrNotFound], or are the store's.
//
// The answer of [Happened] is sealed as this guard seals its own answers. So it must be a guard with the Codec of the
// guard that replays the answer. A guard without a Codec refuses a key whose memo is sealed, by an error wrapping
// [ErrArgument]. For a key without a memo it cannot tell.
//
// by is written to the audit log. Its Actor and Reason are required, and must
// hold no key and no body. Its Verb may be empty: Resolve sets it.
func (g *Guard) Resolve(ctx context.Context, id store.ID, fence int64, r Resolution, by store.Audit) error {
	audit, err := checkAudit(by, store.VerbResolve)
	if err != nil {
		return err
	}
	if r.how.To == 0 {
		return fmt.Errorf("%w: %v is no Resolution: use Happened, NeverHappened, RunAgain, StillUnknown or Abandoned", ErrArgument, r)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	rec, err := g.engine.Store().Read(ctx, id)
	if err != nil {
		return err
	}
	if rec.Fence != fence {
		return &MovedOnError{ID: id, State: rec.State, Fence: rec.Fence}
	}
	return g.resolve(ctx, &rec, r, 0, audit)
}

// resolve applies r to a record as it was read. recoveryAttempts is the record's count of dead
// owners from now on.
func (g *Guard) resolve(ctx context.Context, rec *store.Record, r Resolution, recoveryAttempts int, audit store.Audit) error {
	decided, err := g.resolution(r)
	if err != nil {
		return err
	}
	if r.how.To == StateCompleted && g.sealer.Foreign(rec) {
		return fmt.Errorf("%w: key %v has a sealed memo, and this guard has no Codec to seal the answer with", ErrArgument, rec.ID)
	}
	now, resolved, err := g.engine.Resolve(ctx, rec, decided, recoveryAttempts, audit)
	return movedOn(rec.ID, &now, resolved, err)
}

// movedOn is the error of a move. It is nil if the store made the move (done).
// Otherwise the record was not in the state for which the decision was made.
func movedOn(id store.ID, now *store.Record, done bool, err error) error {
	if err != nil || done {
		return err
	}
	return &MovedOnError{ID: id, State: now.State, Fence: now.Fence}
}

// Forget deletes the record of a key, unless a live owner runs it. The next
// call with the key runs, also if an earlier call had its effect. It is for
// keys of tests, and for requests to erase what is stored. Its fence and its
// errors are those of [Guard.Resolve].
//
// Another process that has the record in its cache ([Config.CacheBytes]) still
// replays it for a minute.
func (g *Guard) Forget(ctx context.Context, id store.ID, fence int64, by store.Audit) error {
	audit, err := checkAudit(by, store.VerbForget)
	if err != nil {
		return err
	}
	now, forgotten, err := g.engine.Forget(ctx, id, fence, audit)
	return movedOn(id, &now, forgotten, err)
}

// ListStuck returns the keys that need a person, the oldest first. These are unknown keys, quarantined keys, and
// Opaque keys whose owner died and that no later request has used.
//
// The zero request asks for the first 100. A Route of req is a [Route.Name] of this guard's [Config.Namespace]. The
// zero Route means any, of every guard over the store: a key of another namespace has the Route "namespace:name".
//
// Dead letters are no part of the zero request: ask for them by req.DeadLetters.
//
// The records are those of [store.Reader].List, with their memos, opened: ListStuck reads each Opaque key once more for
// its memo. Bad input is an error wrapping [ErrArgument]. Other errors are the store's.
func (g *Guard) ListStuck(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	req.Limit = cmp.Or(req.Limit, 100)
	if err := req.Check(); err != nil {
		return nil, err
	}
	req.Route = g.engine.StoredRoute(req.Route)
	records, err := g.engine.List(ctx, req)
	if err != nil {
		return nil, err
	}
	for i := range records {
		rec := &records[i]
		rec.Route = g.engine.ShownRoute(rec.Route)
		if rec.Effect == Opaque {
			if rec.Memo, err = g.readMemo(ctx, rec); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

// readMemo returns the memo of a listed record of an Opaque route. It is nil if the record has moved on, or cannot be read, or if the memo
// was sealed with a key that is gone, or for an earlier owner: the record is still listed.
func (g *Guard) readMemo(ctx context.Context, listed *store.Record) ([]byte, error) {
	rec, err := g.engine.Store().Read(ctx, listed.ID)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrRecordUnreadable):
		return nil, nil
	case err != nil:
		return nil, err
	case rec.Fence != listed.Fence:
		return nil, nil
	}
	memo, err := g.sealer.OpenMemo(&rec)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return memo, nil
}

// A Resolution is the decision about a key whose outcome is unknown, or that is
// quarantined: a person makes it ([Guard.Resolve]), or a [Route].Reconcile. The zero
// Resolution is [StillUnknown].
type Resolution struct {
	how      engine.Resolution // without the answer
	response Response
}

// StillUnknown says that the outcome is not known yet.
func StillUnknown() Resolution { return Resolution{} }

// Happened says that the effect happened once. Retries get r as a replay.
func Happened(r Response) Resolution {
	return Resolution{engine.Resolution{To: StateCompleted, Text: "happened"}, r}
}

// NeverHappened says that no run had an effect and none will: the next call
// runs.
func NeverHappened() Resolution {
	return Resolution{how: engine.Resolution{To: StateReleased, Text: "never happened"}}
}

// RunAgain says that another run does no harm, whatever happened before: the
// next call runs. The fate that an undo is told does not change.
func RunAgain() Resolution {
	return Resolution{how: engine.Resolution{To: StateReleased, Keeps: true, Text: "run again"}}
}

// Abandoned says that the key must never run again, although its effect may
// have happened. The key becomes a tombstone, and retries get key-cancelled.
func Abandoned() Resolution {
	return Resolution{how: engine.Resolution{To: StateCancelled, MaybeRan: true, Text: "abandoned"}}
}

// String returns the resolution in a few words, as the audit log shows it.
func (r Resolution) String() string { return cmp.Or(r.how.Text, "still unknown") }

// MaxMemoBytes is the length of the longest memo.
const MaxMemoBytes = 1024

// remember makes the memo that the claim stores.
func (g *Guard) remember(r *http.Request, c *call, body []byte) *outcome {
	memo, err := memoOf(r, c, body)
	switch {
	case err != nil || len(memo) > MaxMemoBytes:
		return refusedBy(err, errMemo)
	case c.route.Memo == nil && c.route.Reconcile == nil:
		return nil
	}
	c.Token = engine.NewToken()
	if c.Memo, err = g.sealer.SealMemo(c.ID, c.Token, memo); err != nil {
		g.observe(r.Context(), Event{Kind: EventSealError, Route: c.Route.Name, ID: c.ID, Err: err})
		c.Unclaimable = err // a replay needs no memo
	}
	return nil
}

// memoOf returns the memo of a call. The default is the text of the run's parent key, and not of the inbound key: two
// callers may choose the same inbound key.
func memoOf(r *http.Request, c *call, body []byte) ([]byte, error) {
	if c.route.Memo == nil {
		return []byte(c.Hop.String()), nil
	}
	return c.route.Memo(r.WithContext(childkey.NewContext(r.Context(), c.Hop)), body)
}

// reconciler is a route's Reconcile as the engine asks it.
func (g *Guard) reconciler(ask func(context.Context, store.Record) (Resolution, error)) engine.Reconcile {
	return func(ctx context.Context, rec store.Record) (engine.Resolution, error) {
		r, err := ask(ctx, rec)
		if err != nil {
			return engine.Resolution{}, err
		}
		return g.resolution(r)
	}
}

// resolution is r as the engine carries it out.
func (g *Guard) resolution(r Resolution) (engine.Resolution, error) {
	out := r.how
	if out.To != store.StateCompleted {
		return out, nil
	}
	envelope, err := g.envelope(r.response)
	if err != nil {
		return engine.Resolution{}, err
	}
	out.Answer = store.Answer{Status: r.response.Status, Envelope: envelope}
	return out, nil
}

// Reconcile makes an Opaque key unknown once its owner has been dead for a [Config].Lease, as the next call with the key
// would: people and alerts then see it although nobody calls. A key whose owners died too often becomes quarantined.
// It does so for the keys of every guard over the store, at most 1,000 in one call, and not while the store takes too long
// to find them ([store.ErrTooSlow]).
//
// Then it asks the routes' Reconcile about the Opaque runs that died or failed and are
// due, one after the other. One call asks about at most 1,000 runs. The next
// call goes on where this one ended, also if ctx ended it.
//
// It returns the number of resolved runs, also with an error. The error joins the failures of single runs: these stay
// unknown, and are asked about again later. Several processes may call Reconcile at once: only one of them asks about
// each run. [Guard.RunSweeper] calls it.
//
// All runs of a route together get about [Config.HandlerTimeout] in one call.
// The rest of its runs waits for a later call. So a service that does not
// answer delays the runs of other routes by that time only.
func (g *Guard) Reconcile(ctx context.Context) (int, error) { return g.engine.Reconcile(ctx) }
