package saga_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// parentOf is the parent key of a saga's calls, as other languages compute it.
func parentOf(tb testing.TB, scope, definition, text string) childkey.Key {
	tb.Helper()
	parent, err := childkey.Hop(scope, "saga/"+definition, childkey.MustParse(text))
	require.NoError(tb, err)
	return parent
}

// shopFront is a guarded service in front of the stage's services, for tenants. send
// makes a call of it with the key order-1.
func shopFront(s *stage, handle func(ctx context.Context, in order) (string, error)) (send func(tenant, body string) *httptest.ResponseRecorder) {
	s.Helper()
	tenant := func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }
	guard, err := server.NewGuard(memstore.New(), tenant, server.Config{})
	require.NoError(s, err)
	mux := http.NewServeMux()
	require.NoError(s, server.Handle(mux, guard, contract.Post[order, string]("shop", "checkout", "/checkout"), server.Keyed, handle))
	return func(tenant, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/checkout", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "order-1")
		r.Header.Set("X-Tenant", tenant)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
}

// chargeKeys are the keys of the charges that arrived: of sagas, and of calls of no step.
func (s *stage) chargeKeys() (keys []string) {
	for _, d := range s.services.Deliveries() {
		if d.Step == "payment.charge" || d.Step == "" {
			keys = append(keys, d.Key.String())
		}
	}
	return keys
}

// Two tenants send one key to a guarded handler that runs a saga under its ctx's key.
func TestKeys_tenantsOfAGuardedHandler(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"sku":"a-1","cents":100}`, `{"sku":"b-1","cents":250}`} {
		inBubble(t, func(s *stage) {
			e := s.open(checkout)
			send := shopFront(s, func(ctx context.Context, in order) (string, error) {
				k, _ := childkey.FromContext(ctx)
				out, err := checkout.Run(ctx, e, k, in)
				return out.Track, err
			})
			for tenant, body := range map[string]string{"A": `{"sku":"a-1","cents":100}`, "B": body} {
				w := send(tenant, body)
				require.Equal(s, http.StatusOK, w.Code, w.Body)
			}
			for _, step := range checkout.Steps() {
				s.wantEffects(step.Name, 2, 0)
			}
		})
	}
}

// The services know one caller only. The saga of one tenant undoes only its own calls.
func TestKeys_scopesUndoTheirOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("two", 1, func(b *saga.Builder[order, nothing]) {
			paid := saga.Step(b, pay, b.Input()).Undo(refund)
			saga.StepFunc(b, "z.check", b.Input(), func(ctx context.Context, _ saga.Call[order]) (nothing, error) {
				if info, _ := saga.FromContext(ctx); info.Scope == "B" {
					return nothing{}, saga.Rejected(errors.New("B may not"))
				}
				return nothing{}, nil
			}).After(paid)
		})
		e := s.open(d)
		_, err := d.Run(s.Context(), e, key(s.T, "order-1"), basket, saga.Scope("A"))
		require.NoError(s, err)
		s.wantEffects("payment.charge", 1, 0)
		_, err = d.Run(s.Context(), e, key(s.T, "order-1"), basket, saga.Scope("B"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("payment.charge", 2, 1)

		seen := s.services.Deliveries()
		require.Len(s, seen, 3)
		for i, scope := range []string{"A", "B"} {
			want, err := childkey.Derive(parentOf(s.T, scope, "two", "order-1"), "payment", "charge")
			require.NoError(s, err)
			require.Equal(s, want, seen[i].Key)
		}
		require.Equal(s, seen[1].Key, seen[2].Cancels, "the undo names the call of its own saga")
		for _, scope := range []string{"A", "B"} {
			r, err := e.Lookup(s.Context(), journal.IDOf(scope, "two", key(s.T, "order-1")))
			require.NoError(s, err)
			require.Equal(s, scope, r.Scope)
		}
	})
}

// fee and tip charge: two intents, though the operation, the key and the input are the same.
var (
	fee = saga.MustDefine("fee", 1, charges)
	tip = saga.MustDefine("tip", 1, charges)
)

func charges(b *saga.Builder[order, charge]) {
	saga.Return(b, saga.Step(b, pay, b.Input()).Undo(refund).Output())
}

// One handler runs two sagas, and makes a call of its own: three charges.
func TestKeys_definitionsAndCallsAreApart(t *testing.T) {
	t.Parallel()
	for _, options := range [][]saga.RunOption{nil, {saga.Scope("tenant")}} {
		inBubble(t, func(s *stage) {
			e := s.open(fee, tip)
			client, err := s.services.Client("payment")
			require.NoError(s, err)
			send := shopFront(s, func(ctx context.Context, in order) (string, error) {
				k, _ := childkey.FromContext(ctx)
				_, err1 := fee.Run(ctx, e, k, in, options...)
				_, err2 := tip.Run(ctx, e, k, in, options...)
				_, err3 := sdk.Call(ctx, client, pay, in)
				return "", errors.Join(err1, err2, err3)
			})
			w := send("A", `{"sku":"a-1","cents":100}`)
			require.Equal(s, http.StatusOK, w.Code, w.Body)
			s.wantEffects("payment.charge", 2, 0) // of sagas
			keys := s.chargeKeys()
			require.Len(s, keys, 3)
			require.NotEqual(s, keys[0], keys[1])
			require.NotEqual(s, keys[0], keys[2])
			require.NotEqual(s, keys[1], keys[2])
		})
	}
}

// A call names the record that it is made for: the record of the handler's run, or the saga.
func TestKeys_callsNameTheRecordTheyAreMadeFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(fee)
		client, err := s.services.Client("payment")
		require.NoError(s, err)
		send := shopFront(s, func(ctx context.Context, in order) (string, error) {
			k, _ := childkey.FromContext(ctx)
			_, err1 := fee.Run(ctx, e, k, in)
			_, err2 := sdk.Call(ctx, client, pay, in)
			return "", errors.Join(err1, err2)
		})
		w := send("A", `{"sku":"a-1","cents":100}`)
		require.Equal(s, http.StatusOK, w.Code, w.Body)
		record := store.NewID("A", "", key(s.T, "order-1"))
		hop, err := childkey.Hop("A", "", key(s.T, "order-1"))
		require.NoError(s, err)
		want := map[string]string{
			"payment.charge": store.ID(journal.IDOf("", "fee", hop)).String(), // in the form of a UUID
			"":               record.String(),
		}
		seen := make(map[string]string)
		for _, d := range s.services.Deliveries() {
			seen[d.Step] = d.Header.Get(wire.HeaderParent)
		}
		require.Equal(s, want, seen)
	})
}

// A step's function runs a child saga under its own key: each parent has a child of its
// own, also where two parents have the same key.
func TestKeys_childSagas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var e *saga.Engine
		parent := func(name string) *saga.Definition[order, charge] {
			return saga.MustDefine(name, 1, func(b *saga.Builder[order, charge]) {
				saga.Return(b, saga.StepFunc(b, "z.fee", b.Input(), func(ctx context.Context, c saga.Call[order]) (charge, error) {
					k, _ := childkey.FromContext(ctx)
					require.Equal(s, c.Key, k)
					return fee.Run(ctx, e, c.Key, c.Input)
				}).Output())
			})
		}
		one, two := parent("one"), parent("two")
		e = s.open(one, two, fee)
		for _, d := range []*saga.Definition[order, charge]{one, two} {
			for _, scope := range []string{"", "A", "B"} {
				for range 2 { // the second attaches
					_, err := d.Run(s.Context(), e, key(s.T, "k"), basket, saga.Scope(scope))
					require.NoError(s, err)
				}
			}
		}
		_, err := fee.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("payment.charge", 7, 0)
		seen := make(map[string]bool)
		for _, k := range s.chargeKeys() {
			require.False(s, seen[k])
			seen[k] = true
		}
	})
}

// The same key under two definitions is two sagas, which are found by their names.
func TestKeys_twoSagasUnderOneKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(fee, tip)
		k := key(s.T, "k")
		_, err := fee.Run(s.Context(), e, k, basket)
		require.NoError(s, err)
		_, err = e.Lookup(s.Context(), journal.IDOf("", "tip", k))
		require.ErrorIs(s, err, saga.ErrNotFound)
		_, err = tip.Run(s.Context(), e, k, order{SKU: "another input"})
		require.NoError(s, err)
		for _, name := range []string{"fee", "tip"} {
			r, err := e.Lookup(s.Context(), journal.IDOf("", name, k))
			require.NoError(s, err)
			require.Equal(s, name, r.Name)
			require.Equal(s, k, r.Key)
		}
		_, err = fee.Run(s.Context(), e, k, order{SKU: "another input"})
		require.ErrorIs(s, err, saga.ErrKeyReused)
	})
}

// An operation undoes a function's call. It names the key that the function was given, though
// the service takes the keys of operations in a form of its own.
func TestKeys_operationUndoesAFunction(t *testing.T) {
	t.Parallel()
	down := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"payment": {URL: down.URL(), Profile: &retry.Profile{Encoding: childkey.Hex64, Headers: []string{wire.HeaderCancels}}},
	}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	var told childkey.Key
	d := saga.MustDefine("function", 1, func(b *saga.Builder[order, nothing]) {
		paid := saga.StepFunc(b, "payment.charge", b.Input(), func(_ context.Context, c saga.Call[order]) (charge, error) {
			told = c.Key
			return charge{}, nil
		}).Undo(refund)
		saga.StepFunc(b, "z.check", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			return nothing{}, saga.Rejected(errors.New("no"))
		}).After(paid)
	})
	e, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{d}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	_, err = d.Run(t.Context(), e, key(t, "order-1"), basket)
	require.ErrorIs(t, err, saga.ErrCompensated)
	seen := down.Requests()
	require.Len(t, seen, 1)
	require.Equal(t, told, childkey.MustParse(seen[0].Header.Get(wire.HeaderCancels)))
}
