package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
)

// A Guard makes handlers take effect once per key. Make one per service with
// [NewGuard]; routes come from [Handle], [Guard.Handler] or [Guard.Route]. It
// is safe for concurrent use.
type Guard struct {
	store      *boundedStore
	txStore    *boundedTxStore // store, if it is a TxStore
	watchStore WatchStore      // store, if it is one
	partitions PartitionStore  // store, if it is one
	scope      ScopeFunc
	cfg        Config
	headers    headerPolicy
	flights    flights
	cache      *cache // nil: none
	log        *logbook

	fingerprints fingerprinter
	reconcilers  reconcilers
	gate         *gate
	intakes      intakes
	buffered     budget
	noDeadline   sync.Once // logs that read deadlines do not work
	pulse        *pulse
	claimWatch   claimWatch
}

// NewGuard returns a guard over store. scope says whose keys a request uses;
// see [Unscoped]. It starts nothing: no goroutine runs while no request does.
// It returns a [ConfigError] for what cannot work.
func NewGuard(store Store, scope ScopeFunc, cfg Config) (*Guard, error) {
	if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, reject("store", "nil", "a Store is required") // also in place of one that failed to open
	}
	if scope == nil {
		return nil, reject("scope", "nil", "a ScopeFunc is required; Unscoped is the spelled-out way out")
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &Guard{
		store: &boundedStore{store, cfg.StoreTimeout}, scope: scope, cfg: cfg, gate: newGate(),
		log: newLogbook(cfg.Logger), headers: newHeaderPolicy(cfg.ReplayHeaders),
	}
	g.buffered.most, g.buffered.least = cfg.MaxBufferedBytes, cfg.MaxRequestBytes
	if txs, ok := store.(TxStore); ok {
		g.txStore = &boundedTxStore{txs, cfg.StoreTimeout, cfg.SettleTimeout}
	}
	g.partitions, _ = store.(PartitionStore)
	g.watchStore, _ = store.(WatchStore)
	g.pulse = newPulse(g)
	g.fingerprints = newFingerprinter(cfg.FingerprintKeys)
	g.cache = newCache(cfg.CacheBytes, cfg.CacheFor)
	return g, nil
}

// Route returns next guarded by g as r says. It returns a [ConfigError] for
// what cannot work.
func (g *Guard) Route(r Route, next http.Handler) (http.Handler, error) {
	if err := g.checkRoute(r); err != nil {
		return nil, err
	}
	if next == nil {
		return nil, reject("next", "nil", "a handler is required")
	}
	if r.Reconcile != nil && !g.reconcilers.add(r.Name, r.Reconcile) {
		return nil, reject("Route.Name", r.Name, "is taken by another route with Reconcile")
	}
	return &guarded{guard: g, route: r, next: next}, nil
}

func (g *Guard) checkRoute(r Route) error {
	switch r.Effect {
	case Transactional, Keyed, Opaque:
	default:
		return reject("Route.Effect", r.Effect, "must be Transactional, Keyed or Opaque")
	}
	if err := checkName("Route.Name", r.Name); err != nil {
		return err
	}
	switch {
	case r.Effect == Transactional && g.txStore == nil:
		return reject("Route.Effect", r.Effect, "needs a TxStore, such as pgstore")
	case r.Key != nil && r.KeyOptional:
		return reject("Route.KeyOptional", true, "a route with a Key of its own needs a key: a mistake of Key must not let a request run unguarded")
	case r.Effect == Transactional && r.KeyOptional:
		return reject("Route.KeyOptional", true, "a Transactional route needs a key: without a claim there is no transaction")
	case r.Effect == Transactional && r.Stream == StreamTombstone:
		return reject("Route.Stream", r.Stream, "a Transactional route cannot stream: nothing leaves before the commit")
	case r.Effect != Transactional && r.OnCommitError != nil:
		return reject("Route.OnCommitError", r.Effect, "only a Transactional run has a COMMIT of its own")
	case r.Effect != Opaque && (r.Reconcile != nil || r.Memo != nil):
		return reject("Route.Reconcile", r.Effect, "only an Opaque run can leave an unknown outcome")
	case r.Reconcile != nil && (r.Memo == nil || r.Name == ""):
		return reject("Route.Reconcile", "without Memo or Name", "needs both: it is asked long after the request")
	case !slices.Contains([]int{0, http.StatusConflict, http.StatusServiceUnavailable}, r.InProgressStatus):
		return reject("Route.InProgressStatus", r.InProgressStatus, "must be 0, 409 or 503")
	case r.Stream > StreamTombstone:
		return reject("Route.Stream", r.Stream, "is no StreamPolicy")
	case r.Oversize > OversizeRefuse:
		return reject("Route.Oversize", r.Oversize, "is no OversizePolicy")
	case r.Wait > g.cfg.WaitCap:
		return reject("Route.Wait", r.Wait, "must not be longer than WaitCap, "+g.cfg.WaitCap.String())
	}
	return nil
}

// Sweep deletes records that nobody can need any more, in batches of
// [Config.SweepBatch], until a batch is not full. It returns how many it
// deleted, also with an error. Then it calls [Guard.Reconcile] once. It is for a
// job that runs from time to time; in a service, let [Guard.RunSweeper] do it.
func (g *Guard) Sweep(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := g.store.Sweep(ctx, g.cfg.SweepBatch)
		total += n
		if err != nil {
			return total, err
		}
		if err := ctx.Err(); err != nil {
			return total, err
		}
		if n < g.cfg.SweepBatch {
			_, err := g.Reconcile(ctx)
			return total, err
		}
	}
}

func (g *Guard) observe(e Event) {
	g.logEvent(&e)
	if g.cfg.Observer != nil {
		g.cfg.Observer.Observe(e)
	}
}

func (g *Guard) observeStoreError(c *call, err error) {
	var failed *hookError
	if errors.Is(err, ErrExpired) || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrRecordUnreadable) || errors.Is(err, ErrConflict) || errors.As(err, &failed) {
		return // answers of a store that works
	}
	g.observe(Event{Kind: EventStoreError, Route: c.route.Name, ID: c.id, Err: err})
}

// guardsMethod reports whether requests with this method are guarded.
func (g *Guard) guardsMethod(method string) bool { return slices.Contains(g.cfg.Methods, method) }
