package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A patient store calls again where the servers executed nothing: the conformance suite knows no outages. It does not
// call again where the fate of a write is unknown. Its lock lets a test end a server while no call is on its way.
type patient struct {
	store.WatchStore
	calls    *sync.RWMutex
	made     *atomic.Int64
	repeated *atomic.Int64
}

// lawErrors are the errors that a rule may expect.
var lawErrors = []error{
	store.ErrNotFound, store.ErrLeaseLost, store.ErrExpired, store.ErrInProgress, store.ErrFateUnknown, store.ErrRecordUnreadable, store.ErrArgument,
}

// outage is how long a patient store waits for a failover.
const outage = 20 * time.Second

func (p *patient) insist(ctx context.Context, do func() error) error {
	for end := time.Now().Add(outage); ; time.Sleep(20 * time.Millisecond) {
		p.calls.RLock()
		err := do()
		p.made.Add(1)
		p.calls.RUnlock()
		lawful := err == nil || slices.ContainsFunc(lawErrors, func(e error) bool { return errors.Is(err, e) })
		if lawful || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		p.repeated.Add(1)
	}
}

func (p *patient) Claim(ctx context.Context, req store.ClaimRequest) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.Claim(ctx, req); return err })
	return r, ok, err
}

func (p *patient) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.TakeOver(ctx, req, from); return err })
	return r, ok, err
}

func (p *patient) Quarantine(ctx context.Context, req store.QuarantineRequest) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.Quarantine(ctx, req); return err })
	return r, ok, err
}

func (p *patient) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (all store.Renewal, err error) {
	err = p.insist(ctx, func() error {
		got, err := p.WatchStore.Renew(ctx, owners, lease)
		all.Renewed, all.Lost = append(all.Renewed, got.Renewed...), append(all.Lost, got.Lost...)
		owners = slices.DeleteFunc(slices.Clone(owners), func(o store.Owner) bool {
			return slices.Contains(got.Renewed, o) || slices.Contains(got.Lost, o)
		})
		return err
	})
	return all, err
}

func (p *patient) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	return p.insist(ctx, func() error { return p.WatchStore.Settle(ctx, o, s) })
}

func (p *patient) Cancel(ctx context.Context, req store.CancelRequest) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.Cancel(ctx, req); return err })
	return r, ok, err
}

func (p *patient) Read(ctx context.Context, id store.ID) (r store.Record, err error) {
	err = p.insist(ctx, func() (err error) { r, err = p.WatchStore.Read(ctx, id); return err })
	return r, err
}

// Sweep adds up what a sweep deleted before it failed.
func (p *patient) Sweep(ctx context.Context, limit int) (total int, err error) {
	err = p.insist(ctx, func() error {
		if total == limit {
			return nil
		}
		n, err := p.WatchStore.Sweep(ctx, limit-total)
		total += n
		return err
	})
	return total, err
}

func (p *patient) Stats(ctx context.Context) (st store.Stats, err error) {
	err = p.insist(ctx, func() (err error) { st, err = p.WatchStore.Stats(ctx); return err })
	return st, err
}

func (p *patient) Resolve(ctx context.Context, req store.ResolveRequest) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.Resolve(ctx, req); return err })
	return r, ok, err
}

func (p *patient) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (r store.Record, ok bool, err error) {
	err = p.insist(ctx, func() (err error) { r, ok, err = p.WatchStore.Forget(ctx, id, from, by); return err })
	return r, ok, err
}

func (p *patient) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (ok bool, err error) {
	err = p.insist(ctx, func() (err error) { ok, err = p.WatchStore.Defer(ctx, id, from, d); return err })
	return ok, err
}

// Reader is the part of a patient store that reads for people.
func (p *patient) Reader() store.Reader { return patientReader{p.WatchStore.Reader(), p} }

type patientReader struct {
	store.Reader
	p *patient
}

func (r patientReader) Attention(ctx context.Context) (a store.Attention, err error) {
	err = r.p.insist(ctx, func() (err error) { a, err = r.Reader.Attention(ctx); return err })
	return a, err
}

func (r patientReader) AuditPage(ctx context.Context, req store.AuditRequest) (l []store.AuditEntry, err error) {
	err = r.p.insist(ctx, func() (err error) { l, err = r.Reader.AuditPage(ctx, req); return err })
	return l, err
}
