package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/inbox"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func hopKey(tb testing.TB, scope, namespace, text string) childkey.Key {
	tb.Helper()
	hop, err := childkey.Hop(scope, namespace, key(tb, text))
	require.NoError(tb, err)
	return hop
}

// runKeys are the keys that a run sees in its ctx.
type runKeys struct{ parent, inbound, forward, inboundForward childkey.Key }

func keysOf(ctx context.Context) (k runKeys) {
	k.parent, _ = childkey.FromContext(ctx)
	k.inbound, _ = server.InboundKey(ctx)
	k.forward, _ = server.ForwardKey(ctx)
	k.inboundForward, _ = server.InboundForwardKey(ctx)
	return k
}

// scopedGuard is a guard whose requests name their scope in X-Scope.
func scopedGuard(t *testing.T, s store.Store, namespace string) *server.Guard {
	t.Helper()
	g, err := server.NewGuard(s, scopeByHeader, server.Config{Namespace: namespace})
	require.NoError(t, err)
	return g
}

// byRequest returns the keys of one request with the key k.
func byRequest(t *testing.T, g *server.Guard, effect server.Effect, scope string, headers ...string) (seen runKeys) {
	t.Helper()
	h := newRoute(t, g, effect, func(_ http.ResponseWriter, r *http.Request) { seen = keysOf(r.Context()) })
	requireAnswer(t, send(h, "k", "b", append(headers, "X-Scope", scope)...), http.StatusOK, "", false)
	return seen
}

// byTask returns the keys of one Do with the key k.
func byTask(t *testing.T, g *server.Guard, task server.Task) (seen runKeys) {
	t.Helper()
	_, _, err := server.Do(t.Context(), g, task, key(t, "k"), 0, func(ctx context.Context, _ int) (int, error) {
		seen = keysOf(ctx)
		return 0, nil
	})
	require.NoError(t, err)
	return seen
}

// byMessage returns the keys of the handling of one message, and the message's key.
func byMessage(t *testing.T, g *server.Guard, consumer string, m inbox.Message) (seen runKeys, raw childkey.Key) {
	t.Helper()
	b := newInbox(t, g, inbox.Config{Consumer: consumer, Effect: server.Keyed})
	delivery, err := b.Handle(t.Context(), m, func(ctx context.Context, _ []byte) error {
		seen = keysOf(ctx)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, inbox.Ran, delivery.Result)
	raw, err = b.Key(m)
	require.NoError(t, err)
	return seen, raw
}

// The parent key of a run's calls is the hop key, with the scope and the namespace of its record. The ctx also has
// the raw key.
func TestHopKey_inEveryKindOfRun(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			g := scopedGuard(t, memstore.New(), "orders")
			require.Equal(t, runKeys{parent: hopKey(t, "t1", "orders", "k"), inbound: key(t, "k")}, byRequest(t, g, effect, "t1"))
			task := server.Task{Name: "pay", Scope: "t2", Effect: effect}
			require.Equal(t, runKeys{parent: hopKey(t, "t2", "orders", "k"), inbound: key(t, "k")}, byTask(t, g, task))
		})
	}
	seen, raw := byMessage(t, newGuard(t, memstore.New(), server.Config{}), "mails", message)
	require.Equal(t, runKeys{parent: hopKey(t, "inbox", "inbox/mails", raw.String()), inbound: raw}, seen)
	seen, raw = byMessage(t, newGuard(t, memstore.New(), server.Config{Namespace: "orders"}), "mails", message)
	require.Equal(t, runKeys{parent: hopKey(t, "inbox", "orders:inbox/mails", raw.String()), inbound: raw}, seen)
}

// Two callers, two services over one store, or a request and a message can use the same key. No two of them share a
// parent key.
func TestHopKey_differsByScopeAndNamespace(t *testing.T) {
	t.Parallel()
	s, parents := memstore.New(), make(map[childkey.Key]string)
	note := func(who string, k runKeys) {
		require.Empty(t, parents[k.parent], who)
		parents[k.parent] = who
	}
	text := mustKey(t, s, message)
	for _, namespace := range []string{"", "orders", "inbox", "orders/inbox", "saga"} {
		g := scopedGuard(t, s, namespace)
		for _, scope := range []string{"t1", "t2", "inbox", "t1/orders"} {
			h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) { note(namespace+" "+scope, keysOf(r.Context())) })
			requireAnswer(t, send(h, text, "b", "X-Scope", scope), http.StatusOK, "", false)
		}
		for _, consumer := range []string{"mails", "inbox/mails", "orders"} {
			seen, _ := byMessage(t, g, consumer, message)
			note(namespace+" inbox of "+consumer, seen)
		}
	}
	require.Len(t, parents, 5*(4+3))
}

// mustKey is the key that the message has for the consumer mails.
func mustKey(t *testing.T, s store.Store, m inbox.Message) string {
	t.Helper()
	k, err := newInbox(t, newGuard(t, s, server.Config{}), inbox.Config{Consumer: "mails", Effect: server.Keyed}).Key(m)
	require.NoError(t, err)
	return k.String()
}

// An undo finds the rows and the calls of the forward run with ForwardKey: it is the
// parent key that the forward run had.
func TestForwardKey(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	g := scopedGuard(t, s, "orders")
	forward := byRequest(t, g, server.Keyed, "t1")
	require.Zero(t, forward.forward)
	require.Zero(t, forward.inboundForward)

	undo := func(scope string) (seen runKeys, fate server.Fate) {
		h := newRoute(t, g, server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			seen = keysOf(r.Context())
			fate, _ = server.Barrier(r.Context())
		})
		requireAnswer(t, send(h, "undo-1", "u", wire.HeaderCancels, `"k"`, "X-Scope", scope), http.StatusOK, "", false)
		return seen, fate
	}
	seen, fate := undo("t1")
	require.Equal(t, server.Ran, fate)
	require.Equal(t, runKeys{
		parent: hopKey(t, "t1", "orders", "undo-1"), inbound: key(t, "undo-1"),
		forward: forward.parent, inboundForward: forward.inbound,
	}, seen)
	seen, fate = undo("t2")
	require.Equal(t, server.NeverRan, fate, "another caller's call of that key")
	require.NotEqual(t, forward.parent, seen.forward)

	first := byTask(t, g, server.Task{Name: "pay", Scope: "t3", Effect: server.Keyed})
	var task runKeys
	_, _, err := server.Do(t.Context(), g, server.Task{Name: "refund", Scope: "t3", Effect: server.Keyed, Cancels: key(t, "k")}, key(t, "undo-1"), 0,
		func(ctx context.Context, _ int) (int, error) { task = keysOf(ctx); return 0, nil })
	require.NoError(t, err)
	require.Equal(t, first.parent, task.forward)
	require.Equal(t, first.inbound, task.inboundForward)
}

func TestInboundKey_outsideARun(t *testing.T) {
	t.Parallel()
	require.Zero(t, keysOf(t.Context()))
	g := newGuard(t, memstore.New(), server.Config{})
	h, err := g.Route(server.Route{Effect: server.Keyed, KeyOptional: true}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Zero(t, keysOf(r.Context()))
	}))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, send(h, "", "b").Code)
}

// Two services share a store, and each has a consumer of this name: each handles the
// message, and each finds its own record.
func TestInbox_namespace(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for _, namespace := range []string{"", "orders", "invoices"} {
		b := newInbox(t, newGuard(t, s, server.Config{Namespace: namespace}), inbox.Config{Consumer: "mails", Effect: server.Keyed})
		_, err := b.Lookup(t.Context(), message)
		require.ErrorIs(t, err, server.ErrNotFound, "%q", namespace)
		for _, want := range []inbox.Result{inbox.Ran, inbox.Duplicate} {
			got, err := b.Handle(t.Context(), message, func(context.Context, []byte) error { return nil })
			require.NoError(t, err)
			require.Equal(t, want, got.Result, "%q", namespace)
		}
		l, err := b.Lookup(t.Context(), message)
		require.NoError(t, err)
		require.Equal(t, server.StateCompleted, l.State)
	}
}

// The longest namespace of a guard and the longest consumer still have hop keys.
func TestHopKey_longestNames(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", childkey.MaxNameBytes)
	seen, _ := byMessage(t, newGuard(t, memstore.New(), server.Config{Namespace: longest}), longest, message)
	require.False(t, seen.parent.IsZero())
	g := scopedGuard(t, memstore.New(), longest)
	require.False(t, byRequest(t, g, server.Keyed, strings.Repeat("s", server.MaxScopeBytes)).parent.IsZero())
}
