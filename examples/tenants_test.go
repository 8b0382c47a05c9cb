package examples_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

type (
	purchase struct {
		Cents   int
		Address string
	}
	receipt struct{ ID string }
	parcel  struct{ Track string }
)

var (
	chargeCents = contract.Post[int, receipt]("payment", "charge", "/charges")
	refundCents = contract.Post[contract.Undo[int, receipt], struct{}]("payment", "refund", "/charges/refund")
	bookParcel  = contract.Post[string, parcel]("payment", "book", "/parcels")
)

// A paymentService serves the operations above. All its calls come from one shop: it cannot
// tell the shop's tenants apart.
type paymentService struct {
	url string

	mu       sync.Mutex
	charged  []string                // ids of receipts
	byKey    map[childkey.Key]string // the same, by the parent key of the run
	refunded []string
	booked   []string // addresses
}

func startPayment(t *testing.T) *paymentService {
	t.Helper()
	b := &paymentService{byKey: make(map[childkey.Key]string)}
	guard, err := server.NewGuard(memstore.New(), func(*http.Request) (string, error) { return "service:shop", nil }, server.Config{Namespace: "payment"})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, chargeCents, server.Keyed, func(ctx context.Context, cents int) (receipt, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		id := fmt.Sprintf("receipt-%d for %d", len(b.charged)+1, cents)
		b.charged = append(b.charged, id)
		key, _ := childkey.FromContext(ctx)
		b.byKey[key] = id
		return receipt{ID: id}, nil
	}))
	require.NoError(t, server.Handle(mux, guard, refundCents, server.Keyed, func(ctx context.Context, _ contract.Undo[int, receipt]) (struct{}, error) {
		fate, err := server.Barrier(ctx)
		if err != nil || fate == server.NeverRan {
			return struct{}{}, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		forward, _ := server.ForwardKey(ctx)
		b.refunded = append(b.refunded, b.byKey[forward])
		return struct{}{}, nil
	}))
	require.NoError(t, server.Handle(mux, guard, bookParcel, server.Keyed, func(_ context.Context, address string) (parcel, error) {
		if address == "" {
			return parcel{}, server.Refuse(http.StatusUnprocessableEntity, "no-address", "")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.booked = append(b.booked, address)
		return parcel{Track: "T-" + address}, nil
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, guard.Shutdown(context.Background()))
	})
	b.url = srv.URL
	return b
}

// client returns a client of the service.
func (p *paymentService) client(t *testing.T) *sdk.Client {
	t.Helper()
	soon := retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond}
	c, err := sdk.New(sdk.Config{Retry: retry.Config{Backoff: soon, Poll: soon}, Services: map[string]sdk.Service{"payment": {URL: p.url}}})
	require.NoError(t, err)
	return c
}

// startShop starts the guarded service in front of the payment service. Its tenants say who they are
// in Authorization. order sends it an order with the key order-1.
func startShop(t *testing.T, sell func(ctx context.Context, cents int, tenant string) (receipt, error)) (order func(tenant, body string) string) {
	t.Helper()
	tenant := func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
	guard, err := server.NewGuard(memstore.New(), tenant, server.Config{})
	require.NoError(t, err)
	shop, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var cents int
		_, _ = fmt.Fscan(r.Body, &cents)
		out, err := sell(r.Context(), cents, r.Header.Get("Authorization"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, out.ID)
	}))
	require.NoError(t, err)
	srv := httptest.NewServer(shop)
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, guard.Shutdown(context.Background()))
	})
	return func(tenant, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set(wire.HeaderKey, "order-1")
		r.Header.Set("Authorization", tenant)
		resp, err := srv.Client().Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
}

// requireOwnReceipts has two tenants send one key, with the same body and with another.
// Each must be charged, and get its own receipt, also from a retry.
func requireOwnReceipts(t *testing.T, b *paymentService, order func(tenant, body string) string, second string) {
	t.Helper()
	for range 2 {
		require.Equal(t, "receipt-1 for 100", order("tenant-a", "100"))
		require.Equal(t, "receipt-2 for "+second, order("tenant-b", second))
	}
	require.Len(t, b.charged, 2)
}

func TestTenants_call(t *testing.T) {
	t.Parallel()
	for _, second := range []string{"100", "250"} {
		b := startPayment(t)
		client := b.client(t)
		requireOwnReceipts(t, b, startShop(t, func(ctx context.Context, cents int, _ string) (receipt, error) {
			return sdk.Call(ctx, client, chargeCents, cents)
		}), second)
	}
}

func TestTenants_saga(t *testing.T) {
	t.Parallel()
	buy := saga.MustDefine("buy", 1, func(b *saga.Builder[int, receipt]) {
		saga.Return(b, saga.Step(b, chargeCents, b.Input()).Pivot().Output())
	})
	for _, tt := range []struct {
		name string
		run  func(ctx context.Context, e *saga.Engine, cents int, tenant string) (receipt, error)
	}{
		{"key of the ctx", func(ctx context.Context, e *saga.Engine, cents int, _ string) (receipt, error) {
			key, _ := childkey.FromContext(ctx)
			return buy.Run(ctx, e, key, cents)
		}},
		{"key of the ctx, in a scope", func(ctx context.Context, e *saga.Engine, cents int, tenant string) (receipt, error) {
			key, _ := childkey.FromContext(ctx)
			return buy.Run(ctx, e, key, cents, saga.Scope(tenant))
		}},
		{"key as it arrived, in a scope", func(ctx context.Context, e *saga.Engine, cents int, tenant string) (receipt, error) {
			key, _ := server.InboundKey(ctx)
			return buy.Run(ctx, e, key, cents, saga.Scope(tenant))
		}},
	} {
		for _, second := range []string{"100", "250"} {
			t.Run(tt.name+", "+second, func(t *testing.T) {
				t.Parallel()
				b := startPayment(t)
				engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: b.client(t), Definitions: []saga.AnyDefinition{buy}})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
				requireOwnReceipts(t, b, startShop(t, func(ctx context.Context, cents int, tenant string) (receipt, error) {
					return tt.run(ctx, engine, cents, tenant)
				}), second)
			})
		}
	}
}

// The saga of the second tenant fails. It refunds its own charge, never the first one's.
func TestTenants_undo(t *testing.T) {
	t.Parallel()
	b := startPayment(t)
	buy := saga.MustDefine("buy", 1, func(sb *saga.Builder[purchase, string]) {
		paid := saga.Step(sb, chargeCents, saga.Map(sb.Input(), func(p purchase) int { return p.Cents })).Undo(refundCents)
		booked := saga.Step(sb, bookParcel, saga.Map2(sb.Input(), paid.Output(), func(p purchase, _ receipt) string { return p.Address })).Pivot()
		saga.Return(sb, saga.Map(booked.Output(), func(p parcel) string { return p.Track }))
	})
	engine, err := saga.Open(t.Context(), memjournal.New(), saga.Config{Client: b.client(t), Definitions: []saga.AnyDefinition{buy}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })

	key := childkey.MustParse("order-1")
	track, err := buy.Run(t.Context(), engine, key, purchase{100, "A street"}, saga.Scope("tenant-a"))
	require.NoError(t, err)
	require.Equal(t, "T-A street", track)
	_, err = buy.Run(t.Context(), engine, key, purchase{100, ""}, saga.Scope("tenant-b"))
	require.ErrorIs(t, err, saga.ErrCompensated)
	track, err = buy.Run(t.Context(), engine, key, purchase{100, "C street"}, saga.Scope("tenant-c"))
	require.NoError(t, err)
	require.Equal(t, "T-C street", track)
	require.Equal(t, []string{"receipt-1 for 100", "receipt-2 for 100", "receipt-3 for 100"}, b.charged)
	require.Equal(t, []string{"receipt-2 for 100"}, b.refunded)
	require.Equal(t, []string{"A street", "C street"}, b.booked)
}

// A service that charged for a tenant undoes its own call: the parent key of the run that it
// undoes is in the undo's ctx.
func TestTenants_undoOfOwnCalls(t *testing.T) {
	t.Parallel()
	b := startPayment(t)
	client := b.client(t)
	tenant := func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
	guard, err := server.NewGuard(memstore.New(), tenant, server.Config{Namespace: "shop"})
	require.NoError(t, err)
	mux := http.NewServeMux()
	buy := contract.Post[int, receipt]("shop", "buy", "/orders")
	cancel := contract.Post[contract.Undo[int, receipt], struct{}]("shop", "cancel", "/orders/cancel")
	require.NoError(t, server.Handle(mux, guard, buy, server.Keyed, func(ctx context.Context, cents int) (receipt, error) {
		return sdk.Call(ctx, client, chargeCents, cents)
	}))
	require.NoError(t, server.Handle(mux, guard, cancel, server.Keyed, func(ctx context.Context, undo contract.Undo[int, receipt]) (struct{}, error) {
		fate, err := server.Barrier(ctx)
		if err != nil || fate == server.NeverRan {
			return struct{}{}, err
		}
		forward, _ := server.ForwardKey(ctx)
		fan := client.Fanout(childkey.NewContext(ctx, forward)) // as buy made it
		sdk.Add(fan, chargeCents.UndoneBy(refundCents), undo.Input)
		return struct{}{}, fan.Undo(childkey.NewContext(ctx, forward))
	}))
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, guard.Shutdown(context.Background()))
	})
	as := func(tenant string) (context.Context, *sdk.Client) {
		c, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"shop": {URL: srv.URL, Header: http.Header{"Authorization": {tenant}}}}})
		require.NoError(t, err)
		return childkey.NewContext(t.Context(), childkey.MustParse("order-1")), c
	}
	for _, tenant := range []string{"tenant-a", "tenant-b"} {
		ctx, c := as(tenant)
		_, err := sdk.Call(ctx, c, buy, 100)
		require.NoError(t, err)
	}
	ctx, c := as("tenant-b")
	for range 2 { // the second finds that it is done
		require.NoError(t, sdk.CallUndo(ctx, c, buy.UndoneBy(cancel), contract.Undo[int, receipt]{Input: 100}))
	}
	require.Equal(t, []string{"receipt-1 for 100", "receipt-2 for 100"}, b.charged)
	require.Equal(t, []string{"receipt-2 for 100"}, b.refunded)
}
