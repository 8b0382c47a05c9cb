package engine

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A hole is a store behind a network that swallows every packet. A new method of one of the interfaces does not
// compile until it is here.
type hole struct{}

func swallow(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (hole) Claim(ctx context.Context, _ store.ClaimRequest) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}

func (hole) TakeOver(ctx context.Context, _ store.ClaimRequest, _ int64) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}

func (hole) Quarantine(ctx context.Context, _ store.QuarantineRequest) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}

func (hole) Renew(ctx context.Context, _ []store.Owner, _ time.Duration) (r store.Renewal, err error) {
	return r, swallow(ctx)
}
func (hole) Settle(ctx context.Context, _ store.Owner, _ store.Settlement) error { return swallow(ctx) }

func (hole) Cancel(ctx context.Context, _ store.CancelRequest) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}
func (hole) Read(ctx context.Context, _ store.ID) (r store.Record, err error) { return r, swallow(ctx) }
func (hole) Sweep(ctx context.Context, _ int) (n int, err error)              { return n, swallow(ctx) }
func (hole) Stats(ctx context.Context) (s store.Stats, err error)             { return s, swallow(ctx) }

func (hole) Resolve(ctx context.Context, _ store.ResolveRequest) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}

func (hole) Forget(ctx context.Context, _ store.ID, _ int64, _ store.Audit) (r store.Record, ok bool, err error) {
	return r, ok, swallow(ctx)
}

func (hole) Defer(ctx context.Context, _ store.ID, _ int64, _ time.Duration) (ok bool, err error) {
	return ok, swallow(ctx)
}

func (hole) Begin(ctx context.Context) (store.Tx, error) { return nil, swallow(ctx) }

func (hole) Reader() store.Reader { return nil }

// A holeTx embeds the methods that take no ctx.
type holeTx struct{ store.Tx }

func (holeTx) Cancel(ctx context.Context, r store.CancelRequest) (store.Record, bool, error) {
	return hole{}.Cancel(ctx, r)
}
func (holeTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	return hole{}.Settle(ctx, o, s)
}
func (holeTx) Commit(ctx context.Context) error   { return swallow(ctx) }
func (holeTx) Rollback(ctx context.Context) error { return swallow(ctx) }

// Every method that can block is bounded, whichever part of the guard calls it.
func TestBounded_everyMethod(t *testing.T) {
	t.Parallel()
	const timeout, settle = 5 * time.Second, 10 * time.Second
	instant := []string{"NewContext", "Conflict", "Err"} // of Tx: they take no ctx to wait by
	for _, tt := range []struct {
		of      reflect.Type
		bounded any
	}{
		{reflect.TypeFor[store.Store](), &boundedStore{hole{}, timeout}},
		{reflect.TypeFor[store.TxStore](), &boundedTxStore{hole{}, timeout, settle}},
		{reflect.TypeFor[store.Tx](), &boundedTx{holeTx{}, timeout, settle}},
	} {
		for i := range tt.of.NumMethod() {
			m := tt.of.Method(i)
			if tt.of == reflect.TypeFor[store.TxStore]() && m.Name != "Begin" || tt.of != reflect.TypeFor[store.Store]() && slices.Contains(instant, m.Name) ||
				m.Name == "Reader" { // what it returns bounds its reads itself
				continue
			}
			t.Run(tt.of.Name()+"."+m.Name, func(t *testing.T) {
				t.Parallel()
				if m.Type.NumIn() == 0 || m.Type.In(0) != reflect.TypeFor[context.Context]() {
					t.Fatal("takes no ctx: say what bounds it")
				}
				synctest.Test(t, func(t *testing.T) {
					want := timeout
					if tt.of == reflect.TypeFor[store.Tx]() && (m.Name == "Settle" || m.Name == "Commit") {
						want = settle
					}
					ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
					if m.Name == "List" || m.Name == "Stats" { // a deadline of the caller's replaces the bound
						ctx = t.Context()
					}
					defer cancel()
					args := []reflect.Value{reflect.ValueOf(ctx)}
					for n := 1; n < m.Type.NumIn(); n++ {
						args = append(args, reflect.Zero(m.Type.In(n)))
					}
					start := time.Now()
					results := reflect.ValueOf(tt.bounded).MethodByName(m.Name).Call(args)
					if err := results[len(results)-1].Interface(); err == nil {
						t.Error("error = nil, want that of the ctx")
					}
					if got := time.Since(start); got != want {
						t.Errorf("returned after %v, want %v", got, want)
					}
				})
			})
		}
	}
}
