package server_test

import (
	"cmp"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A blackHole is a store that never answers one of its methods, from some moment
// on. It remembers how long each such call went on.
type blackHole struct {
	store.TxStore

	mu     sync.Mutex
	method string
	hung   []time.Duration
}

// swallow makes the store answer no further call of the method.
func (b *blackHole) swallow(method string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.method = method
}

// call hangs if the method is the one that is never answered.
func (b *blackHole) call(ctx context.Context, method string) error {
	b.mu.Lock()
	hangs := b.method == method
	b.mu.Unlock()
	if !hangs {
		return nil
	}
	start := time.Now()
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(24 * time.Hour):
		err = errors.New("the call was not bounded")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hung = append(b.hung, time.Since(start))
	return err
}

func (b *blackHole) Claim(ctx context.Context, req store.ClaimRequest) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "Claim"); err != nil {
		return r, ok, err
	}
	return b.TxStore.Claim(ctx, req)
}

func (b *blackHole) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "TakeOver"); err != nil {
		return r, ok, err
	}
	return b.TxStore.TakeOver(ctx, req, from)
}

func (b *blackHole) Quarantine(ctx context.Context, req store.QuarantineRequest) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "Quarantine"); err != nil {
		return r, ok, err
	}
	return b.TxStore.Quarantine(ctx, req)
}

func (b *blackHole) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (r store.Renewal, err error) {
	if err := b.call(ctx, "Renew"); err != nil {
		return r, err
	}
	return b.TxStore.Renew(ctx, owners, lease)
}

func (b *blackHole) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if err := b.call(ctx, "Settle"); err != nil {
		return err
	}
	return b.TxStore.Settle(ctx, o, s)
}

func (b *blackHole) Cancel(ctx context.Context, req store.CancelRequest) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "Cancel"); err != nil {
		return r, ok, err
	}
	return b.TxStore.Cancel(ctx, req)
}

func (b *blackHole) Read(ctx context.Context, id store.ID) (r store.Record, err error) {
	if err := b.call(ctx, "Read"); err != nil {
		return r, err
	}
	return b.TxStore.Read(ctx, id)
}

func (b *blackHole) Sweep(ctx context.Context, limit int) (int, error) {
	if err := b.call(ctx, "Sweep"); err != nil {
		return 0, err
	}
	return b.TxStore.Sweep(ctx, limit)
}

func (b *blackHole) Reader() store.Reader { return blackHoleReader{b.TxStore.Reader(), b} }

type blackHoleReader struct {
	store.Reader
	store *blackHole
}

func (r blackHoleReader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := r.store.call(ctx, "Reader.List"); err != nil {
		return nil, err
	}
	return r.Reader.List(ctx, req)
}

func (b *blackHole) Resolve(ctx context.Context, req store.ResolveRequest) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "Resolve"); err != nil {
		return r, ok, err
	}
	return b.TxStore.Resolve(ctx, req)
}

func (b *blackHole) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (r store.Record, ok bool, err error) {
	if err := b.call(ctx, "Forget"); err != nil {
		return r, ok, err
	}
	return b.TxStore.Forget(ctx, id, from, by)
}

func (b *blackHole) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := b.call(ctx, "Defer"); err != nil {
		return false, err
	}
	return b.TxStore.Defer(ctx, id, from, d)
}

func (b *blackHole) MaintainPartitions(ctx context.Context, _ time.Duration) error {
	return b.call(ctx, "MaintainPartitions")
}

func (b *blackHole) Begin(ctx context.Context) (store.Tx, error) {
	if err := b.call(ctx, "Begin"); err != nil {
		return nil, err
	}
	tx, err := b.TxStore.Begin(ctx)
	return &blackHoleTx{tx, b}, err
}

type blackHoleTx struct {
	store.Tx
	store *blackHole
}

func (t *blackHoleTx) Cancel(ctx context.Context, req store.CancelRequest) (r store.Record, ok bool, err error) {
	if err := t.store.call(ctx, "Tx.Cancel"); err != nil {
		return r, ok, err
	}
	return t.Tx.Cancel(ctx, req)
}

func (t *blackHoleTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if err := t.store.call(ctx, "Tx.Settle"); err != nil {
		return errors.Join(store.ErrFateUnknown, err)
	}
	return t.Tx.Settle(ctx, o, s)
}

func (t *blackHoleTx) Commit(ctx context.Context) error {
	if err := t.store.call(ctx, "Tx.Commit"); err != nil {
		return errors.Join(store.ErrFateUnknown, err)
	}
	return t.Tx.Commit(ctx)
}

func (t *blackHoleTx) Rollback(ctx context.Context) error {
	return errors.Join(t.store.call(ctx, "Tx.Rollback"), t.Tx.Rollback(ctx))
}

// A scene is a guard over a black hole.
type scene struct {
	t     *testing.T
	store *blackHole
	g     *server.Guard
}

func (s *scene) route(r server.Route, next http.HandlerFunc) http.Handler {
	h, err := s.g.Route(r, next)
	require.NoError(s.t, err)
	return h
}

// status is a route whose handler answers with a status, after d.
func (s *scene) status(effect server.Effect, status int, d time.Duration) http.Handler {
	return s.route(server.Route{Effect: effect}, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(d)
		w.WriteHeader(status)
	})
}

// undecided is an Opaque route that fails, and whose Reconcile knows what happened.
func (s *scene) undecided() http.Handler {
	r := server.Route{
		Effect: server.Opaque, Name: "n",
		Reconcile: func(context.Context, store.Record) (server.Resolution, error) { return server.NeverHappened(), nil },
	}
	return s.route(r, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
}

// die leaves key "k" in progress, its owner dead.
func (s *scene) die(effect server.Effect) { die(s.t, s.store.TxStore, effect, server.Config{}) }

// undo is a route that asks what became of its forward call.
func (s *scene) undo(effect server.Effect) http.Handler {
	return s.route(server.Route{Effect: effect}, func(w http.ResponseWriter, r *http.Request) {
		if _, err := server.Barrier(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// sweeping runs the sweeper for a while.
func (s *scene) sweeping() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	s.g.RunSweeper(ctx)
}

// A place is one way in which a guard calls a method of its store.
type place struct {
	method, name string
	bound        time.Duration // zero: DefaultStoreTimeout
	call         func(s *scene)
}

// places has every method of every interface of a store that can block.
var places = []place{
	{method: "Claim", name: "request", call: func(s *scene) {
		s.store.swallow("Claim")
		requireCode(s.t, send(s.status(server.Keyed, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Read", name: "duplicate that waits", call: func(s *scene) {
		h := s.status(server.Keyed, 200, time.Hour)
		go send(newRoute(s.t, newGuard(s.t, s.store.TxStore, server.Config{}), server.Keyed, func(http.ResponseWriter, *http.Request) {
			time.Sleep(2 * time.Second)
		}), "k", "b")
		synctest.Wait()
		time.AfterFunc(time.Second, func() { s.store.swallow("Read") })
		requireCode(s.t, send(h, "k", "b", wait(10)...), wire.StoreUnavailable)
	}},
	{method: "Read", name: "look-up", call: func(s *scene) {
		s.store.swallow("Read")
		_, err := s.g.Lookup(s.t.Context(), "unscoped", key(s.t, "k"))
		require.Error(s.t, err)
	}},
	{method: "Read", name: "resolution", call: func(s *scene) {
		s.store.swallow("Read")
		require.Error(s.t, s.g.Resolve(s.t.Context(), store.ID{1}, 1, server.NeverHappened(), ann))
	}},
	{method: "TakeOver", name: "request", call: func(s *scene) {
		s.die(server.Keyed)
		s.store.swallow("TakeOver")
		requireCode(s.t, send(s.status(server.Keyed, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Quarantine", name: "request", call: func(s *scene) {
		s.die(server.Opaque)
		s.store.swallow("Quarantine")
		requireCode(s.t, send(s.status(server.Opaque, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Quarantine", name: "reconciler", call: func(s *scene) {
		_ = s.undecided()
		claim := store.ClaimRequest{ID: store.ID{1}, Effect: server.Opaque, Lease: time.Microsecond, Keep: time.Hour, Route: "n"}
		_, _, err := s.store.Claim(s.t.Context(), claim)
		require.NoError(s.t, err)
		time.Sleep(time.Second)
		s.store.swallow("Quarantine")
		_, err = s.g.Reconcile(s.t.Context())
		require.Error(s.t, err)
	}},
	{method: "Renew", name: "heartbeat", call: func(s *scene) {
		s.store.swallow("Renew")
		send(s.status(server.Keyed, 200, 40*time.Second), "k", "b")
	}},
	{method: "Settle", name: "completion", call: func(s *scene) {
		s.store.swallow("Settle")
		requireCode(s.t, send(s.status(server.Keyed, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Settle", name: "release", call: func(s *scene) {
		s.store.swallow("Settle")
		send(s.status(server.Keyed, 500, 0), "k", "b")
	}},
	{method: "Cancel", name: "barrier of a keyed undo", call: func(s *scene) {
		s.store.swallow("Cancel")
		requireCode(s.t, send(s.undo(server.Keyed), "undo", "b", wire.HeaderCancels, "k"), wire.StoreUnavailable)
	}},
	{method: "Tx.Cancel", name: "barrier of a transactional undo", call: func(s *scene) {
		s.store.swallow("Tx.Cancel")
		requireCode(s.t, send(s.undo(server.Transactional), "undo", "b", wire.HeaderCancels, "k"), wire.StoreUnavailable)
	}},
	{method: "Begin", name: "run", call: func(s *scene) {
		s.store.swallow("Begin")
		requireCode(s.t, send(s.status(server.Transactional, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Begin", name: "completion hook", call: func(s *scene) {
		s.store.swallow("Begin")
		h := s.route(server.Route{Effect: server.Keyed}, func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(s.t, store.OnComplete(r.Context(), func(context.Context) error { return nil }))
		})
		requireCode(s.t, send(h, "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Tx.Settle", name: "commit", bound: server.DefaultSettleTimeout, call: func(s *scene) {
		s.store.swallow("Tx.Settle")
		requireCode(s.t, send(s.status(server.Transactional, 200, 0), "k", "b"), wire.StoreUnavailable)
	}},
	{method: "Tx.Commit", name: "run without a key", bound: server.DefaultSettleTimeout, call: func(s *scene) {
		s.store.swallow("Tx.Commit")
		h := s.route(server.Route{Effect: server.Transactional, KeyOptional: true}, func(http.ResponseWriter, *http.Request) {})
		requireCode(s.t, send(h, "", "b"), wire.OutcomeUnknown)
	}},
	{method: "Tx.Rollback", name: "run that failed", call: func(s *scene) {
		s.store.swallow("Tx.Rollback")
		send(s.status(server.Transactional, 500, 0), "k", "b")
	}},
	{method: "Sweep", name: "Sweep", call: func(s *scene) {
		s.store.swallow("Sweep")
		_, err := s.g.Sweep(s.t.Context())
		require.Error(s.t, err)
	}},
	{method: "Sweep", name: "sweeper", call: func(s *scene) {
		s.store.swallow("Sweep")
		s.sweeping()
	}},
	{method: "MaintainPartitions", name: "sweeper", bound: time.Minute, call: func(s *scene) {
		s.store.swallow("MaintainPartitions")
		s.sweeping()
	}},
	{method: "Reader.List", name: "ListStuck", call: func(s *scene) {
		s.store.swallow("Reader.List")
		_, err := s.g.ListStuck(s.t.Context(), store.ListRequest{})
		require.Error(s.t, err)
	}},
	{method: "Reader.List", name: "sweeper", call: func(s *scene) {
		_ = s.undecided()
		s.store.swallow("Reader.List")
		s.sweeping()
	}},
	{method: "Defer", name: "request for an unknown key", call: func(s *scene) {
		h := s.undecided()
		send(h, "k", "b")
		s.store.swallow("Defer")
		require.Equal(s.t, http.StatusLocked, send(h, "k", "b").Code)
	}},
	{method: "Defer", name: "reconciler", call: func(s *scene) {
		send(s.undecided(), "k", "b")
		s.store.swallow("Defer")
		_, err := s.g.Reconcile(s.t.Context())
		require.Error(s.t, err)
	}},
	{method: "Resolve", name: "request for an unknown key", call: func(s *scene) {
		h := s.undecided()
		send(h, "k", "b")
		s.store.swallow("Resolve")
		require.Equal(s.t, http.StatusLocked, send(h, "k", "b").Code)
	}},
	{method: "Resolve", name: "person", call: func(s *scene) {
		send(s.undecided(), "k", "b")
		s.store.swallow("Resolve")
		require.Error(s.t, s.g.Resolve(s.t.Context(), unscopedID(s.t, s.g, "k"), 1, server.NeverHappened(), ann))
	}},
	{method: "Resolve", name: "dead letter of a quarantined message", call: func(s *scene) {
		b := newInbox(s.t, s.g, inbox.Config{Consumer: "mails", Effect: server.Keyed})
		found, err := b.Lookup(s.t.Context(), message)
		require.ErrorIs(s.t, err, server.ErrNotFound, "%+v", found)
		_, err = b.Handle(s.t.Context(), message, func(context.Context, []byte) error { return errDown })
		require.Error(s.t, err)
		found, err = b.Lookup(s.t.Context(), message)
		require.NoError(s.t, err)
		claim := store.ClaimRequest{ID: found.ID, Effect: server.Keyed, Lease: time.Microsecond, Window: time.Hour}
		_, won, err := s.store.TakeOver(s.t.Context(), claim, found.Fence)
		require.True(s.t, won && err == nil)
		time.Sleep(time.Second)
		_, quarantined, err := s.store.Quarantine(s.t.Context(), store.QuarantineRequest{ID: found.ID, From: found.Fence + 1, To: server.StateQuarantined})
		require.True(s.t, quarantined && err == nil)
		s.store.swallow("Resolve")
		_, err = b.Handle(s.t.Context(), message, func(context.Context, []byte) error { return nil })
		require.Error(s.t, err)
	}},
	{method: "Forget", name: "person", call: func(s *scene) {
		s.store.swallow("Forget")
		require.Error(s.t, s.g.Forget(s.t.Context(), store.ID{1}, 1, ann))
	}},
}

// If the store never answers, still no call of the guard hangs, and no Shutdown.
func TestBounded_everyPlace(t *testing.T) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.method+" "+p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, store: &blackHole{TxStore: memstore.New()}}
				s.g = newGuard(t, s.store, server.Config{})
				p.call(s)
				if err := s.g.Shutdown(t.Context()); p.method == "Settle" {
					require.ErrorContains(t, err, "the store did not answer the ends of 1 runs")
				} else {
					require.NoError(t, err)
				}
				require.NotEmpty(t, s.store.hung, "the guard did not call the method")
				limit := cmp.Or(p.bound, server.DefaultStoreTimeout)
				for _, d := range s.store.hung {
					require.LessOrEqual(t, d, limit)
				}
			})
		})
	}
}

// storeInterfaces are the interfaces that a store can have.
var storeInterfaces = []reflect.Type{
	reflect.TypeFor[store.Store](), reflect.TypeFor[store.OperatorStore](), reflect.TypeFor[store.TxStore](),
	reflect.TypeFor[store.WatchStore](), reflect.TypeFor[store.PartitionStore](), reflect.TypeFor[store.Tx](),
}

// A new method in an interface of a store fails this test until places says
// where the guard calls it.
func TestBounded_everyMethodHasAPlace(t *testing.T) {
	t.Parallel()
	exempt := []string{
		"Watch",                                  // must not block
		"Tx.NewContext", "Tx.Conflict", "Tx.Err", // call no server
		"Stats",  // the guard does not call it
		"Reader", // calls no server
	}
	for _, of := range storeInterfaces {
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			if of == reflect.TypeFor[store.Tx]() {
				name = "Tx." + name
			}
			covered := slices.ContainsFunc(places, func(p place) bool { return p.method == name })
			if !covered && !slices.Contains(exempt, name) {
				t.Errorf("%v has the method %s: say in places where the guard calls it", of, name)
			}
		}
	}
}

// Every such interface in the package is in the list above.
func TestBounded_everyInterface(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("store/*.go")
	require.NoError(t, err)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				_, isInterface := spec.Type.(*ast.InterfaceType)
				if isInterface && (strings.HasSuffix(spec.Name.Name, "Store") || strings.HasSuffix(spec.Name.Name, "Tx")) {
					found = append(found, spec.Name.Name)
				}
			}
			return true
		})
	}
	var want []string
	for _, of := range storeInterfaces {
		want = append(want, of.Name())
	}
	require.ElementsMatch(t, want, found)
}
