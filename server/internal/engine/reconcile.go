package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/runctx"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// maxReconcilePause is the longest pause between two questions about a run.
	maxReconcilePause = time.Hour
	// reconcileBatch is how many runs one call of Reconcile asks about, and how many dead ones it ends.
	reconcileBatch = 1000
	// endDeadTimeout ends the look for dead runs over a store that hangs: the next call goes on.
	endDeadTimeout = time.Minute
)

// A Reconcile finds out the outcome of an unknown run. The record's memo is opened.
type Reconcile func(context.Context, store.Record) (Resolution, error)

// reconcilers are the routes' callbacks by name, and where the last pass over
// the store ended.
type reconcilers struct {
	mu     sync.Mutex
	byName map[string]Reconcile
	after  store.Cursor
}

// AddReconciler makes [Engine.Reconcile] ask about the runs of a route. It returns false if
// another route has the name.
func (e *Engine) AddReconciler(route string, ask Reconcile) bool {
	r := &e.reconcilers
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.byName[route]; taken {
		return false
	}
	if r.byName == nil {
		r.byName = make(map[string]Reconcile)
	}
	r.byName[route] = ask
	return true
}

func (r *reconcilers) get(name string) Reconcile {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

func (r *reconcilers) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byName) == 0
}

func (r *reconcilers) cursor() store.Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.after
}

func (r *reconcilers) setCursor(to store.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = to
}

// Reconcile ends the opaque runs that died, and asks the routes about those that died or failed and are due. Package
// server says more.
func (e *Engine) Reconcile(ctx context.Context) (int, error) {
	failed := e.endDead(ctx)
	resolved, err := e.askRoutes(ctx)
	return resolved, errors.Join(failed, err)
}

// endDead ends the opaque runs whose owners have been dead for a lease, whatever guard they belong to: their keys become
// unknown, or quarantined after too many deaths. Otherwise a key that nobody asks for again would count for ever as one
// that is in progress, and no person would hear of it.
//
// The lease more is for an owner that lives, and was late: it records by itself what happened, before a person is called.
// After that it still can, as long as nobody has resolved the key.
func (e *Engine) endDead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endDeadTimeout)
	defer cancel()
	page, err := e.List(ctx, store.ListRequest{States: []store.State{store.StateInProgress}, Effect: store.Opaque, Limit: reconcileBatch})
	if errors.Is(err, store.ErrTooSlow) {
		return nil // not a failure that a retry or a person could correct: the next request for a key ends its run
	}
	failures := []error{err}
	for i := range page {
		if page[i].LeaseLeft() > -e.cfg.Lease {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(failures, context.Cause(ctx))...)
		}
		_, _, err := e.quarantineDead(ctx, &page[i])
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// quarantineDead ends a listed opaque run whose owner is dead. It returns false if the run is alive, or ended meanwhile.
func (e *Engine) quarantineDead(ctx context.Context, listed *store.Record) (store.Record, bool, error) {
	d := decideInProgress(listed, e.cfg.MaxRecoveryAttempts)
	if d.action != actionQuarantine {
		return store.Record{}, false, nil
	}
	rec, quarantined, err := e.store.Quarantine(ctx, store.QuarantineRequest{ID: listed.ID, From: listed.Fence, To: d.to})
	if err != nil || !quarantined {
		return store.Record{}, false, ignoreNotFound(err)
	}
	rec.Route = e.ShownRoute(listed.Route)
	e.observeQuarantine(ctx, rec.Route, rec.ID, d.to)
	return rec, true, nil
}

func (e *Engine) askRoutes(ctx context.Context) (int, error) {
	if e.reconcilers.isEmpty() {
		return 0, nil
	}
	page, err := e.reconcilable(ctx)
	if err != nil {
		return 0, err
	}
	resolved := 0
	var failures []error
	spent := make(map[string]time.Duration) // by route
	for i := range page {
		rec := &page[i]
		e.reconcilers.setCursor(rec.Cursor())
		route := rec.Route // as stored; asking changes rec
		if spent[route] >= e.cfg.HandlerTimeout {
			continue
		}
		began := time.Now()
		done, err := e.reconcileListed(ctx, rec)
		spent[route] += time.Since(began)
		if done {
			resolved++
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			return resolved, errors.Join(append(failures, context.Cause(ctx))...)
		}
	}
	if len(page) < reconcileBatch {
		e.reconcilers.setCursor(store.Cursor{}) // from the start again
	}
	return resolved, errors.Join(failures...)
}

// reconcilable lists the records to ask about, without their memos.
func (e *Engine) reconcilable(ctx context.Context) ([]store.Record, error) {
	return e.List(ctx, store.ListRequest{
		States: []store.State{store.StateInProgress, store.StateUnknown}, Effect: store.Opaque, After: e.reconcilers.cursor(), Limit: reconcileBatch,
	})
}

// List returns the records of a list for people.
func (e *Engine) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	ctx, cancel := bound(ctx, e.cfg.StoreTimeout)
	defer cancel()
	return e.store.Reader().List(ctx, req)
}

func (e *Engine) reconcileListed(ctx context.Context, rec *store.Record) (resolved bool, err error) {
	route, own := e.ownRoute(rec.Route)
	reconcile := e.reconcilers.get(route)
	if !own || reconcile == nil {
		return false, nil // another service's, or of a route that has none
	}
	if rec.State == store.StateInProgress {
		ended, ok, err := e.quarantineDead(ctx, rec)
		if !ok || err != nil || ended.State != store.StateUnknown { // quarantined: for a person
			return false, err
		}
		return e.reconcile(ctx, &ended, reconcile)
	}
	if rec.LeaseLeft() > 0 {
		return false, nil // it was asked about a short while ago
	}
	whole, err := e.store.Read(ctx, rec.ID)
	if err != nil || whole.Fence != rec.Fence || whole.State != rec.State {
		return false, ignoreNotFound(err)
	}
	whole.Route = route
	return e.reconcile(ctx, &whole, reconcile)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// reconcile asks about one unknown record, unless another caller asks now or
// asked a short while ago. Then the record's LeaseUntil becomes the time of the
// next question.
func (e *Engine) reconcile(ctx context.Context, rec *store.Record, ask Reconcile) (resolved bool, err error) {
	if rec.LeaseLeft() > 0 {
		return false, nil
	}
	age := rec.Now.Sub(rec.CreatedAt)
	pause := max(e.cfg.HandlerTimeout, min(age, maxReconcilePause))
	if won, err := e.store.Defer(ctx, rec.ID, rec.Fence, pause); !won || err != nil {
		return false, ignoreNotFound(err)
	}
	rec.LeaseUntil = rec.Now.Add(pause)
	memo, err := e.cfg.Sealer.OpenMemo(rec)
	if err != nil {
		e.observe(ctx, store.Event{Kind: store.EventSealError, Route: rec.Route, ID: rec.ID, Err: err})
		return false, &serviceError{err}
	}
	shown := *rec
	shown.Memo, shown.Answer = memo, store.Answer{}
	found, err := e.callReconcile(ctx, ask, shown)
	switch {
	case err != nil:
		return false, &serviceError{err}
	case found.To == 0:
		return false, nil
	}
	by := store.Audit{Verb: store.VerbResolve, Actor: "reconciler", Reason: rec.Route + ": " + found.Text}
	_, resolved, err = e.Resolve(ctx, rec, found, rec.RecoveryAttempts, by)
	return resolved && err == nil, err // not resolved: a person was faster
}

// A serviceError is an error of the service's own functions. The Observer has heard of it, and the store works.
type serviceError struct{ error }

func (e *serviceError) Unwrap() error { return e.error }

// callReconcile calls the route's Reconcile. Its panic is an error: a panic must end neither
// the request nor the sweep that asks. Who asks does not matter: ctx carries neither a run nor a parent key.
func (e *Engine) callReconcile(ctx context.Context, ask Reconcile, rec store.Record) (found Resolution, err error) {
	ctx = childkey.NewContext(runctx.Leave(ctx), childkey.Key{})
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.HandlerTimeout, ErrHandlerTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			found, err = Resolution{}, fmt.Errorf("server: Reconcile panicked: %v", v)
		}
		e.observe(ctx, store.Event{Kind: store.EventReconcile, Route: rec.Route, ID: rec.ID, Err: err})
	}()
	return ask(ctx, rec)
}

// settleByReconciler asks the route of a call about its unknown key. It
// reports whether the engine must ask the store again.
func (e *Engine) settleByReconciler(ctx context.Context, c *Call, m *member, f *finding) bool {
	if c.Route.Reconcile == nil || f.code != wire.OutcomeUnknown {
		return false
	}
	rec := f.record
	rec.Route = c.Route.Name                                      // also for a run from before the route had a name
	ctx, stop := e.drain.untilClosing(context.WithoutCancel(ctx)) // it does not end with the client
	defer stop()
	asking := rec // for the followers the question counts as a run
	asking.State, asking.LeaseUntil = store.StateInProgress, rec.Now.Add(e.cfg.HandlerTimeout)
	m.beginRun(asking)
	resolved, err := e.reconcile(ctx, &rec, c.Route.Reconcile)
	if err != nil && !errors.As(err, new(*serviceError)) {
		e.observeStoreError(ctx, c, err)
	}
	if !resolved {
		f.record.LeaseUntil = rec.LeaseUntil // when the route is asked next: the callers are told
		m.setRecord(f.record)
	}
	return resolved
}
