package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrArgument: what was asked cannot be meant as it is; nothing changed.
var ErrArgument = errors.New("server: bad argument")

// A MovedOnError is returned by [Guard.Resolve] and [Guard.Forget] if the
// record is not as the decision presumed. Nothing changed; look again.
type MovedOnError struct {
	ID    ID
	State State // now
	Fence int64 // now
}

// Error implements error.
func (e *MovedOnError) Error() string {
	return fmt.Sprintf("server: key %v has moved on: it is %v, with fence %d", e.ID, e.State, e.Fence)
}

// A Person says who does something, and why. Both go to the audit log and must
// hold no key and no body. Actor is 1 to [MaxActorBytes] bytes of UTF-8, Reason
// 1 to [MaxReasonBytes].
type Person struct{ Actor, Reason string }

func (p Person) audit(verb Verb) (Audit, error) {
	for _, field := range []struct {
		name, value string
		most        int
	}{{"Actor", p.Actor, MaxActorBytes}, {"Reason", p.Reason, MaxReasonBytes}} {
		if strings.TrimSpace(field.value) == "" || len(field.value) > field.most {
			return Audit{}, fmt.Errorf("%w: %s of %d bytes, must have 1 to %d", ErrArgument, field.name, len(field.value), field.most)
		}
		if !utf8.ValidString(field.value) || strings.ContainsRune(field.value, 0) {
			return Audit{}, fmt.Errorf("%w: %s is no text", ErrArgument, field.name)
		}
	}
	return Audit{Verb: verb, Actor: p.Actor, Reason: p.Reason}, nil
}

// Resolve ends the matter of a key that is unknown or poisoned, or whose owner
// is dead, as j says. fence is that of the record which the decision was made on
// ([Guard.ListStuck], [Guard.Lookup]): if it has moved on meanwhile, Resolve
// returns a [*MovedOnError] and changes nothing. Other errors wrap [ErrArgument],
// [ErrNotFound], or are the store's.
func (g *Guard) Resolve(ctx context.Context, id ID, fence int64, j Judgement, by Person) error {
	audit, err := by.audit(VerbResolve)
	if err != nil {
		return err
	}
	if j.to == 0 {
		return fmt.Errorf("%w: %v is no resolution", ErrArgument, j)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	rec, err := g.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if rec.Fence != fence {
		return &MovedOnError{ID: id, State: rec.State, Fence: rec.Fence}
	}
	return g.resolve(ctx, &rec, j, 0, audit)
}

// resolve applies j to a record as it was read, with so many deaths to count from:
// a person starts anew, a reconciler does not, or a key whose every run dies would
// never be quarantined.
func (g *Guard) resolve(ctx context.Context, rec *Record, j Judgement, deaths int, audit Audit) error {
	req := ResolveRequest{
		ID: rec.ID, From: rec.Fence, To: j.to, Token: newToken(), ReplayFor: g.cfg.replayFor(), KeepAnswer: g.cfg.BodyRetention, Keep: g.cfg.AuditRetention,
		Deaths: deaths, MaybeRan: j.maybeRan || (j.keeps && g.mayHaveRun(rec)), By: audit,
	}
	if j.to == StateCompleted {
		envelope, err := g.envelope(j.response)
		if err != nil {
			return err
		}
		owner := Owner{ID: rec.ID, Token: req.Token, Fence: req.From + 1}
		req.Answer = g.sealAnswer(g.shownRoute(rec.Route), owner, Answer{Status: j.response.Status, Envelope: envelope})
	}
	now, resolved, err := g.store.Resolve(ctx, req)
	if errors.Is(err, ErrFateUnknown) && ctx.Err() == nil {
		now, resolved, err = g.store.Resolve(ctx, req) // the token knows itself
	}
	switch {
	case err != nil:
		return err
	case !resolved:
		return &MovedOnError{ID: rec.ID, State: now.State, Fence: now.Fence}
	}
	g.observe(Event{Kind: EventResolved, Route: g.shownRoute(rec.Route), ID: rec.ID})
	return nil
}

// mayHaveRun is what an undo of the record would be told now.
func (g *Guard) mayHaveRun(rec *Record) bool { return fateOf(rec) == MaybeRan }

// Forget deletes the record of a key, unless somebody alive runs: the next call
// with the key runs, also if an earlier one had its effect. It is for keys of
// tests, and for requests to erase what is stored. Its fence and its errors are
// those of [Guard.Resolve].
//
// Another process that has the record in its cache ([Config.CacheBytes]) still
// replays it for [Config.CacheFor].
func (g *Guard) Forget(ctx context.Context, id ID, fence int64, by Person) error {
	audit, err := by.audit(VerbForget)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.StoreTimeout)
	defer cancel()
	rec, forgotten, err := g.store.Forget(ctx, id, fence, audit)
	g.cache.drop(id)
	switch {
	case err != nil:
		return err
	case !forgotten:
		return &MovedOnError{ID: id, State: rec.State, Fence: rec.Fence}
	}
	g.observe(Event{Kind: EventForgotten, Route: g.shownRoute(rec.Route), ID: id})
	return nil
}

// A StuckQuery asks for what [Guard.ListStuck] returns. Its zero value asks for
// the first hundred.
type StuckQuery struct {
	// States are the states to list. None means [StateUnknown], [StatePoisoned]
	// and, past the lease, [StateInProgress].
	States []State
	// Effect is that of the keys' last runs. Zero means any.
	Effect Effect
	// Route is the [Route.Name] of the keys, of this guard's [Config.Namespace]. A
	// dead run that was not Opaque has none until the next call with its key. Zero
	// means any, of every guard over the store: those of another namespace are
	// listed as "namespace:name".
	Route string
	// Running adds keys whose owner is alive, if they were first claimed at
	// least so long ago. Zero adds none.
	Running time.Duration
	// After is where the page before ended; zero for the first page.
	After Cursor
	// Limit is how many are returned at most. Zero means 100.
	Limit int
}

func (q StuckQuery) check() error {
	if q.Limit < 0 || q.Running < 0 {
		return fmt.Errorf("%w: Limit %d or Running %v is negative", ErrArgument, q.Limit, q.Running)
	}
	for _, s := range q.States {
		if _, ok := stateNames[s]; !ok {
			return fmt.Errorf("%w: no State %d", ErrArgument, s)
		}
	}
	if q.Effect > Opaque {
		return fmt.Errorf("%w: no Effect %d", ErrArgument, q.Effect)
	}
	return nil
}

// ListStuck returns the keys that need somebody, the oldest first: unknown ones,
// quarantined ones, and those whose owner died and that nobody has asked for
// since. Their answers are left out. It may read the store's whole table: a ctx
// with a deadline gives it more time than [Config.StoreTimeout], or less.
func (g *Guard) ListStuck(ctx context.Context, q StuckQuery) ([]Record, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	orDefault(&q.Limit, 100)
	q.Route = g.storedRoute(q.Route)
	records, err := g.store.List(ctx, ListRequest(q))
	if err != nil {
		return nil, err
	}
	for i := range records {
		records[i].Route = g.shownRoute(records[i].Route)
		if records[i].Memo, err = g.openMemo(&records[i]); err != nil {
			records[i].Memo = nil // sealed with a key that is gone, or for an earlier owner; the record is listed all the same
		}
	}
	return records, nil
}

// AuditLog returns at most limit entries of what was done to keys in somebody's
// name, the youngest first; those of one key if id is not the zero ID. The log
// is not swept: its owner prunes it, as with PruneAudit of pgstore. Its time is
// that of [Guard.ListStuck].
func (g *Guard) AuditLog(ctx context.Context, id ID, limit int) ([]AuditEntry, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	return g.store.AuditLog(ctx, id, limit)
}
