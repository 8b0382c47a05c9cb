package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Guard makes handlers take effect once per key. Make one per service with
// [NewGuard]; routes come from [Handle], [Guard.Handler] or [Guard.Route]. It
// is safe for concurrent use.
type Guard struct {
	engine   *engine.Engine
	scope    ScopeFunc
	cfg      Config
	headers  headerPolicy
	log      *logbook
	under    store.Store
	draining atomic.Bool // [Guard.ReadyHandler] refuses
	intakes  intakes
	buffered budget

	sealer       record.Sealer
	fingerprints record.Fingerprinter
	noDeadline   sync.Once // logs that read deadlines do not work
}

// NewGuard returns a guard over under. scope returns the scope of a request's
// key; see [Unscoped]. NewGuard starts no goroutine. A wrong argument is a
// [ConfigError].
func NewGuard(under store.Store, scope ScopeFunc, cfg Config) (*Guard, error) {
	if v := reflect.ValueOf(under); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, reject("store", "nil", "a Store is required") // it may be the nil that a failed Open returned
	}
	if scope == nil {
		return nil, reject("scope", "nil", "a ScopeFunc is required: use Unscoped if all callers may see each other's answers")
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &Guard{scope: scope, cfg: cfg, under: under, log: newLogbook(cfg.Logger), headers: newHeaderPolicy(cfg.ReplayHeaders)}
	g.buffered.most, g.buffered.least = cfg.MaxBufferedBytes, cfg.MaxRequestBytes
	g.sealer = record.Sealer{Codec: cfg.Codec}
	g.fingerprints = record.NewFingerprinter(fingerprintKeys(cfg.FingerprintKeys))
	g.engine = engine.New(g.engineConfig(under))
	return g, nil
}

// engineConfig is the part of g that the engine needs.
func (g *Guard) engineConfig(under store.Store) engine.Config {
	c := &g.cfg
	var tracer engine.Tracer
	if t, ok := c.Observer.(Tracer); ok {
		tracer = &safeTracer{guard: g, tracer: t}
	}
	return engine.Config{
		Store: under,
		Lease: c.Lease, HandlerTimeout: c.HandlerTimeout, StoreTimeout: c.StoreTimeout, SettleTimeout: c.SettleTimeout,
		Keep: c.AuditRetention, ReplayFor: cmp.Or(c.BodyRetention, c.Retention),
		KeepAnswer: c.BodyRetention, KeepPartitions: cmp.Or(c.BodyRetention, c.AuditRetention), Window: c.window(),
		MaxRecoveryAttempts: c.MaxRecoveryAttempts, Namespace: c.Namespace,
		CacheBytes: c.CacheBytes, Waiters: c.waiterLimits(),
		SweepBatch: c.SweepBatch, SweepInterval: c.SweepInterval,
		Fingerprints: g.fingerprints, Sealer: g.sealer,
		Observe: g.observe, Tracer: tracer,
		Log: func(ctx context.Context, l engine.Line) { g.log.write(ctx, logLine{Line: l}) },
	}
}

// Route returns next guarded by g as r says. A wrong field is a [ConfigError].
func (g *Guard) Route(r Route, next http.Handler) (http.Handler, error) {
	if err := g.checkRoute(r); err != nil {
		return nil, err
	}
	if next == nil {
		return nil, reject("next", "nil", "a handler is required")
	}
	h := &guarded{guard: g, route: r, next: next}
	if r.Reconcile != nil {
		h.reconcile = g.reconciler(r.Reconcile)
		if !g.engine.AddReconciler(r.Name, h.reconcile) {
			return nil, reject("Route.Name", r.Name, "must be unique: another route with Reconcile has it")
		}
	}
	return h, nil
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
	case r.RefuseUnknownMembers:
		return reject("Route.RefuseUnknownMembers", true, "only a route of HandleRoute knows the members")
	case r.Effect == Transactional && !g.engine.HasTx():
		return reject("Route.Effect", r.Effect, "needs a TxStore, such as pgstore")
	case r.Key != nil && r.KeyOptional:
		return reject("Route.KeyOptional", true, "a route with a Key of its own needs a key: after a mistake of Key a request would run unguarded")
	case r.Effect == Transactional && r.Stream == StreamTombstone:
		return reject("Route.Stream", r.Stream, "a Transactional route cannot stream: nothing leaves before the commit")
	case r.Effect != Transactional && r.OnCommitError != nil:
		return reject("Route.OnCommitError", r.Effect, "only a Transactional run has a COMMIT of its own")
	case r.Effect != Opaque && (r.Reconcile != nil || r.Memo != nil):
		return reject("Route.Reconcile", r.Effect, "only an Opaque run can leave an unknown outcome")
	case r.Reconcile != nil && r.Name == "":
		return reject("Route.Reconcile", "without Name", "needs a Route.Name: it is asked long after the request")
	case r.Stream > StreamTombstone:
		return reject("Route.Stream", r.Stream, "must be StreamBuffer, StreamRefuse or StreamTombstone")
	case r.HandlerTimeout < 0 || r.HandlerTimeout > MaxRetention:
		return reject("Route.HandlerTimeout", r.HandlerTimeout, fmt.Sprintf("must not be negative, or longer than %v", MaxRetention))
	case r.Wait > g.cfg.longestWait():
		return reject("Route.Wait", r.Wait, fmt.Sprintf("must not be longer than %v, which is the longest wait", g.cfg.longestWait()))
	}
	return nil
}

func (g *Guard) observe(ctx context.Context, e Event) {
	g.logEvent(ctx, &e)
	if g.cfg.Observer != nil {
		defer g.recoverObserver(ctx, "Observe")
		g.cfg.Observer.Observe(ctx, e)
	}
}

// guardsMethod reports whether requests with this method are guarded.
func (g *Guard) guardsMethod(method string) bool { return slices.Contains(g.cfg.Methods, method) }

// ErrShutdown is the cause that [Guard.Shutdown] cancels a run with.
var ErrShutdown = engine.ErrShutdown

// ErrHandlerTimeout is the cause that a run's ctx ends with after
// [Config.HandlerTimeout], or that of its [Route].
var ErrHandlerTimeout = engine.ErrHandlerTimeout

// Shutdown ends the guard. New requests are refused with not-claimed, and waiting duplicates with
// store-unavailable. A claim whose run did not begin is released. [Guard.RunSweeper]
// ends, and so does the ctx of every [Route].Reconcile. Shutdown blocks until every run is settled, and
// until no request, sweep or heartbeat uses the store. Then it returns nil, and the
// store may be closed.
//
// Shutdown does not wait for request bodies: a request whose body is still coming is
// refused with not-claimed. http.Server.Shutdown does the same to the requests of
// its server.
//
// One [Config.SettleTimeout] before the deadline of ctx, Shutdown cancels the ctx of every run that is still running,
// with cause [ErrShutdown]. In that time the handler must return and the run must be recorded. As always, the effect
// class decides the result of the answer. A nearer deadline cancels the runs at once. Without a deadline the runs are
// cancelled when ctx ends.
//
// A run that does not return in time makes Shutdown return ctx's error, with the
// number of such runs. Call it again to wait for them. A store that is closed before
// that leaves them unsettled: their leases end by themselves.
//
// With more than the longest HandlerTimeout, of [Config] and of its routes, and [Config.SettleTimeout] no run is
// cancelled by Shutdown. With less, only the longest runs are.
//
// [Guard.Serve] calls it at the right moment. Otherwise call it after http.Server.Shutdown, which lets most requests end by themselves.
// Give each a ctx of its own, or the first can use up the time of the second. It may
// be called more than once and concurrently.
func (g *Guard) Shutdown(ctx context.Context) error {
	g.draining.Store(true)
	g.engine.Drain()
	g.intakes.close() // no run has begun for them: another process reads the retry's body
	return g.engine.Shutdown(ctx)
}

// RunSweeper blocks until ctx ends or [Guard.Shutdown] is called, which waits for it. It
// deletes expired records, drops answers past BodyRetention, maintains the partitions of a
// [store.PartitionStore], and calls [Guard.Reconcile].
//
// It begins a round about every [Config.SweepInterval]. A round sweeps in batches of [Config.SweepBatch] until nothing
// is left. After each batch it pauses for 5 ms, and at least as long as the batch took.
//
// A failure is logged and is an [EventSweepError]. The sweep is repeated, less and less often, but at least about
// once in a round. One sweeper for a store is enough. Several sweepers, in one process or in several, share the work.
func (g *Guard) RunSweeper(ctx context.Context) { g.engine.RunSweeper(ctx) }

// Sweep deletes expired records in batches of [Config.SweepBatch], until a batch is not
// full. Then it calls [Guard.Reconcile] once. It returns the number of deleted records, also
// with an error. It is for a job that runs from time to time; a service calls
// [Guard.RunSweeper].
func (g *Guard) Sweep(ctx context.Context) (int, error) { return g.engine.Sweep(ctx) }
