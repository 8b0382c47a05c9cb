package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// MaxMemoBytes is the length of the longest memo.
const MaxMemoBytes = 1024

// maxReconcilePause is how long a matter rests at most between two looks.
const maxReconcilePause = time.Hour

// A Case is an opaque run whose outcome nobody knows, as [Route.Reconcile] gets
// it.
type Case struct {
	ID        ID
	Route     string // [Route.Name]
	Memo      []byte // what [Route.Memo] returned
	Fence     int64  // of the last owner: how often it was run or moved
	Deaths    int    // owners that died
	CreatedAt time.Time
	Age       time.Duration // since CreatedAt, by the store's clock
}

// MemoKey is a [Route.Memo]: the text of the run's parent key, which
// [childkey.FromContext] returns in the handler. It names the request in another
// system, also where two callers choose the same key. Where [Config.Codec] is nil
// it can be read in the table.
func MemoKey(r *http.Request, _ []byte) ([]byte, error) {
	key, _ := childkey.FromContext(r.Context())
	return []byte(key.String()), nil
}

// remember makes the memo that the claim stores.
func (g *Guard) remember(r *http.Request, c *call, body []byte) *outcome {
	if c.route.Memo == nil {
		return nil
	}
	memo, err := c.route.Memo(r.WithContext(childkey.NewContext(r.Context(), c.hop)), body)
	if err != nil || len(memo) > MaxMemoBytes {
		return refusedBy(err, errMemo)
	}
	c.token = newToken()
	if c.memo, err = g.sealMemo(c.id, c.token, memo); err != nil {
		g.observe(Event{Kind: EventSealError, Route: c.route.Name, ID: c.id, Err: err})
		return &outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: err}
	}
	return nil
}

// reconcilers are the routes' callbacks by name, and where the last pass over
// the store ended.
type reconcilers struct {
	mu     sync.Mutex
	byName map[string]func(context.Context, Case) (Judgement, error)
	after  Cursor
}

// add returns false if the name is taken.
func (r *reconcilers) add(name string, reconcile func(context.Context, Case) (Judgement, error)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.byName[name]; taken {
		return false
	}
	if r.byName == nil {
		r.byName = make(map[string]func(context.Context, Case) (Judgement, error))
	}
	r.byName[name] = reconcile
	return true
}

func (r *reconcilers) get(name string) func(context.Context, Case) (Judgement, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

func (r *reconcilers) none() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byName) == 0
}

func (r *reconcilers) cursor() Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.after
}

func (r *reconcilers) setCursor(to Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = to
}

// Reconcile asks the routes' Reconcile about the opaque runs that died or failed
// and are due, one after the other, at most [Config.SweepBatch] in one call: the
// next call goes on where this one ended, also if ctx ended it. It returns how
// many were resolved, also with an error, which joins what went wrong with single
// ones: these stay unknown, and are asked about again later. Several processes may
// call it at once; of each run one asks. [Guard.RunSweeper] calls it.
//
// A route has about [Config.HandlerTimeout] in one call, all its runs together. The
// rest of its runs waits for a later call. So a service that does not answer delays
// the runs of other routes by that time only.
func (g *Guard) Reconcile(ctx context.Context) (int, error) {
	if g.reconcilers.none() {
		return 0, nil
	}
	page, err := g.reconcilable(ctx)
	if err != nil {
		return 0, err
	}
	resolved := 0
	var failures []error
	spent := make(map[string]time.Duration) // by route
	for i := range page {
		rec := &page[i]
		g.reconcilers.setCursor(Cursor{CreatedAt: rec.CreatedAt, ID: rec.ID})
		route := rec.Route // as stored; asking changes rec
		if spent[route] >= g.cfg.HandlerTimeout {
			continue
		}
		began := time.Now()
		done, err := g.reconcileListed(ctx, rec)
		spent[route] += time.Since(began)
		if done {
			resolved++
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			return resolved, errors.Join(append(failures, context.Cause(ctx))...)
		}
	}
	if len(page) < g.cfg.SweepBatch {
		g.reconcilers.setCursor(Cursor{}) // from the start again
	}
	return resolved, errors.Join(failures...)
}

// reconcilable lists the records to ask about. The store has an index for them.
func (g *Guard) reconcilable(ctx context.Context) ([]Record, error) {
	ctx, cancel := bound(ctx, g.cfg.StoreTimeout)
	defer cancel()
	return g.store.List(ctx, ListRequest{
		States: []State{StateInProgress, StateUnknown}, Effect: Opaque, After: g.reconcilers.cursor(), Limit: g.cfg.SweepBatch,
	})
}

func (g *Guard) reconcileListed(ctx context.Context, rec *Record) (resolved bool, err error) {
	route, own := g.ownRoute(rec.Route)
	reconcile := g.reconcilers.get(route)
	if !own || reconcile == nil {
		return false, nil // another service's, or of a route that has none
	}
	rec.Route = route
	if rec.State == StateInProgress {
		d := decideInProgress(rec, g.cfg.MaxDeaths)
		if d.verdict != verdictBury {
			return false, nil
		}
		buried, ok, err := g.store.Bury(ctx, BuryRequest{ID: rec.ID, From: rec.Fence, To: d.bury})
		if !ok || err != nil {
			return false, ignoreNotFound(err)
		}
		g.observeBurial(route, rec.ID, d.bury)
		if d.bury != StateUnknown {
			return false, nil // for a person
		}
		buried.Route = route
		rec = &buried
	}
	return g.reconcile(ctx, rec, reconcile)
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// reconcile asks about one unknown record, if nobody else does or did a short
// while ago. Then the record's LeaseUntil becomes the time of the next question.
func (g *Guard) reconcile(ctx context.Context, rec *Record, ask func(context.Context, Case) (Judgement, error)) (resolved bool, err error) {
	if rec.LeaseLeft() > 0 {
		return false, nil
	}
	age := rec.Now.Sub(rec.CreatedAt)
	pause := max(g.cfg.HandlerTimeout, min(age, maxReconcilePause))
	if won, err := g.store.Defer(ctx, rec.ID, rec.Fence, pause); !won || err != nil {
		return false, ignoreNotFound(err)
	}
	rec.LeaseUntil = rec.Now.Add(pause)
	memo, err := g.openMemo(rec)
	if err != nil {
		g.observe(Event{Kind: EventSealError, Route: rec.Route, ID: rec.ID, Err: err})
		return false, err
	}
	j, err := g.judge(ctx, ask, Case{
		ID: rec.ID, Route: rec.Route, Memo: memo, Fence: rec.Fence, Deaths: rec.Deaths, CreatedAt: rec.CreatedAt, Age: age,
	})
	if err != nil || j.to == 0 {
		return false, err
	}
	err = g.resolve(ctx, rec, j, rec.Deaths, Audit{Verb: VerbResolve, Actor: "reconciler", Reason: rec.Route + ": " + j.String()})
	var moved *MovedOnError
	if errors.As(err, &moved) {
		return false, nil // a person was faster
	}
	return err == nil, err
}

// judge calls the callback. Its panic is an error: it must end neither the
// request nor the sweep that happens to ask.
func (g *Guard) judge(ctx context.Context, ask func(context.Context, Case) (Judgement, error), c Case) (j Judgement, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.HandlerTimeout, ErrHandlerTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			j, err = Judgement{}, fmt.Errorf("server: Reconcile panicked: %v", v)
		}
		g.observe(Event{Kind: EventReconcile, Route: c.Route, ID: c.ID, Err: err})
	}()
	return ask(ctx, c)
}

// settledByReconciler asks the route of a call about its unknown key. It reports
// whether the store has to be asked again.
func (g *Guard) settledByReconciler(ctx context.Context, c *call, s *seat, f *finding) bool {
	if c.route.Reconcile == nil || f.code != wire.OutcomeUnknown {
		return false
	}
	rec := f.record
	rec.Route = c.route.Name                                     // also of a run from before the route had a name
	ctx, stop := g.gate.untilClosing(context.WithoutCancel(ctx)) // it does not end with the client
	defer stop()
	resolved, err := g.reconcile(ctx, &rec, c.route.Reconcile)
	if err != nil {
		g.observeStoreError(c, err)
	}
	if !resolved {
		f.record.LeaseUntil = rec.LeaseUntil // when the route is asked next: the callers are told
		s.found(f.record)
	}
	return resolved
}
