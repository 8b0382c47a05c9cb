package engine

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Config configures an [Engine]. No field has a default: the guard has checked and
// computed every value.
type Config struct {
	Store store.Store

	Lease          time.Duration
	HandlerTimeout time.Duration
	StoreTimeout   time.Duration
	SettleTimeout  time.Duration

	Keep           time.Duration // a record
	ReplayFor      time.Duration // a completed record's answer
	KeepAnswer     time.Duration // the answer's bytes; 0: as long as the record
	KeepPartitions time.Duration // the longest that an answer's bytes are kept
	Window         time.Duration // how old a first-sent time may be

	MaxRecoveryAttempts int
	Namespace           string // distinguishes the routes of guards over one store

	CacheBytes int64

	Waiters WaiterLimits

	SweepBatch    int
	SweepInterval time.Duration

	Fingerprints record.Fingerprinter
	Sealer       record.Sealer

	// Observe is told every event, in the goroutine that it happens in.
	Observe func(context.Context, store.Event)
	// Tracer hears of calls and runs; nil: nobody does.
	Tracer Tracer
	// Log gets the failures of the service's own code.
	Log func(context.Context, Line)
}

// An Engine claims keys, runs calls and settles them. It is safe for concurrent use.
type Engine struct {
	cfg        Config
	store      *boundedStore
	txStore    *boundedTxStore      // store, if it is a TxStore
	watchStore store.WatchStore     // store, if it is one
	partitions store.PartitionStore // store, if it is one

	groups      groups
	cache       *cache // nil: none
	reconcilers reconcilers
	drain       *drain
	heartbeat   *heartbeat
	unsettled   unsettled
}

// New returns an engine. It starts no goroutine: without a running call there is none.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, store: &boundedStore{cfg.Store, cfg.StoreTimeout}, drain: newDrain()}
	if txs, ok := cfg.Store.(store.TxStore); ok {
		e.txStore = &boundedTxStore{txs, cfg.StoreTimeout, cfg.SettleTimeout}
	}
	e.partitions, _ = cfg.Store.(store.PartitionStore)
	e.watchStore, _ = cfg.Store.(store.WatchStore)
	e.heartbeat = newHeartbeat(e)
	e.unsettled.engine = e
	e.cache = newCache(cfg.CacheBytes)
	return e
}

// HasTx reports whether the store has transactions.
func (e *Engine) HasTx() bool { return e.txStore != nil }

// Store returns the store. Each call of it is bounded in time.
func (e *Engine) Store() store.Store { return e.store }

// sealAnswer returns the answer as it is stored; a tombstone if it cannot be sealed.
func (e *Engine) sealAnswer(ctx context.Context, route string, owner store.Owner, a store.Answer) store.Answer {
	a, err := e.cfg.Sealer.SealAnswer(owner, a)
	if err != nil {
		e.observe(ctx, store.Event{Kind: store.EventSealError, Route: route, ID: owner.ID, Err: err})
	}
	return a
}

// StoredRoute returns the name of one of the guard's routes as records have it: behind the namespace and a colon. A
// reconciler of another namespace, over the same store, must not be asked about the record, although its route has
// the same name. Without a namespace the name is stored unchanged.
func (e *Engine) StoredRoute(name string) string {
	if name == "" || e.cfg.Namespace == "" && !strings.Contains(name, ":") {
		return name
	}
	return e.cfg.Namespace + ":" + name
}

// ownRoute is the inverse of StoredRoute: it returns the name of one of the guard's routes. It returns false if the
// record belongs to another guard. No namespace has a colon.
func (e *Engine) ownRoute(stored string) (name string, own bool) {
	namespace, name, apart := strings.Cut(stored, ":")
	if !apart {
		return stored, e.cfg.Namespace == ""
	}
	return name, e.cfg.Namespace == namespace
}

// ShownRoute returns a record's route for people: the name alone for one of the guard's own.
func (e *Engine) ShownRoute(stored string) string {
	if name, own := e.ownRoute(stored); own {
		return name
	}
	return stored
}

// NewToken returns a random token. crypto/rand never fails: it ends the
// process instead.
func NewToken() (t store.Token) {
	_, _ = rand.Read(t[:])
	return t
}
