package engine

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A boundedStore is the guard's way to its store: no call takes longer than
// Config.StoreTimeout. A store that swallows packets would otherwise hold a
// request, its single flight and Shutdown for as long as the network likes.
//
// It embeds no Store, and the guard holds it by its own type. So a new method of [store.Store] does not compile until
// it has a bound here. Nor can code ask the guard's store for another interface and silently not get it.
type boundedStore struct {
	store   store.Store
	timeout time.Duration
}

var _ store.Store = (*boundedStore)(nil)

// bound returns ctx with timeout as its latest end. A ctx that ends before that
// stays as it is: most callers bound several calls together.
func bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= timeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

func (b *boundedStore) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Claim(ctx, req)
}

func (b *boundedStore) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.TakeOver(ctx, req, from)
}

func (b *boundedStore) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Quarantine(ctx, req)
}

func (b *boundedStore) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Renew(ctx, owners, lease)
}

func (b *boundedStore) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Settle(ctx, o, s)
}

func (b *boundedStore) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Cancel(ctx, req)
}

func (b *boundedStore) Read(ctx context.Context, id store.ID) (store.Record, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Read(ctx, id)
}

func (b *boundedStore) Sweep(ctx context.Context, limit int) (int, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Sweep(ctx, limit)
}

func (b *boundedStore) Stats(ctx context.Context) (store.Stats, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Stats(ctx)
}

func (b *boundedStore) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Resolve(ctx, req)
}

func (b *boundedStore) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Forget(ctx, id, from, by)
}

func (b *boundedStore) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.store.Defer(ctx, id, from, d)
}

// Reader returns the store's own Reader, which bounds its reads itself.
func (b *boundedStore) Reader() store.Reader { return b.store.Reader() }

// A boundedTxStore makes transactions whose calls are bounded.
type boundedTxStore struct {
	store           store.TxStore
	timeout, settle time.Duration
}

// Begin is [store.TxStore].Begin. A transaction may need the ctx of Begin until it ends.
// So the bound cancels that ctx only if Begin is late.
func (b *boundedTxStore) Begin(ctx context.Context) (store.Tx, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(b.timeout, func() { cancel(context.DeadlineExceeded) })
	tx, err := b.store.Begin(ctx)
	late.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return &boundedTx{Tx: tx, timeout: b.timeout, settle: b.settle}, nil
}

// A boundedTx bounds the methods of a transaction that take a ctx. The handler's
// own statements have the ctx of the run.
type boundedTx struct {
	store.Tx
	timeout, settle time.Duration
}

func (b *boundedTx) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.Tx.Cancel(ctx, req)
}

// Settle has the whole Config.SettleTimeout: a COMMIT of unknown fate cannot be
// sent again.
func (b *boundedTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	ctx, cancel := bound(ctx, b.settle)
	defer cancel()
	return b.Tx.Settle(ctx, o, s)
}

// Commit has the time of Settle.
func (b *boundedTx) Commit(ctx context.Context) error {
	ctx, cancel := bound(ctx, b.settle)
	defer cancel()
	return b.Tx.Commit(ctx)
}

func (b *boundedTx) Rollback(ctx context.Context) error {
	ctx, cancel := bound(ctx, b.timeout)
	defer cancel()
	return b.Tx.Rollback(ctx)
}
