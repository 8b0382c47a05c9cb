package servertest

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A mutantReader is the reader of a memstore with a defect: each field that is set replaces a method.
type mutantReader struct {
	store.Reader

	show      func(ctx context.Context, id store.ID) (store.Record, error)
	list      func(ctx context.Context, req store.ListRequest) ([]store.Record, error)
	browse    func(ctx context.Context, req store.BrowseRequest) ([]store.Record, error)
	attention func(ctx context.Context) (store.Attention, error)
	estimate  func(ctx context.Context) (store.Estimate, error)
	auditPage func(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error)
}

// Reader returns the reader of m, which readWith may have broken.
func (m *mutant) Reader() store.Reader {
	r := &mutantReader{Reader: m.Store.Reader()}
	if m.read != nil {
		m.read(r)
	}
	return r
}

// readWith breaks the reader.
func (m *mutant) readWith(mar func(r *mutantReader)) { m.read = mar }

// sameTime stops the clock of the store.
func (m *mutant) sameTime(claim func() []store.ID) {
	now := time.Now()
	m.still.Store(&now)
	defer m.still.Store(nil)
	claim()
}

func (r *mutantReader) Show(ctx context.Context, id store.ID) (store.Record, error) {
	if r.show != nil {
		return r.show(ctx, id)
	}
	return r.Reader.Show(ctx, id)
}

func (r *mutantReader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if r.list != nil {
		return r.list(ctx, req)
	}
	return r.Reader.List(ctx, req)
}

func (r *mutantReader) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	if r.browse != nil {
		return r.browse(ctx, req)
	}
	return r.Reader.Browse(ctx, req)
}

func (r *mutantReader) Attention(ctx context.Context) (store.Attention, error) {
	if r.attention != nil {
		return r.attention(ctx)
	}
	return r.Reader.Attention(ctx)
}

func (r *mutantReader) Estimate(ctx context.Context) (store.Estimate, error) {
	if r.estimate != nil {
		return r.estimate(ctx)
	}
	return r.Reader.Estimate(ctx)
}

func (r *mutantReader) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	if r.auditPage != nil {
		return r.auditPage(ctx, req)
	}
	return r.Reader.AuditPage(ctx, req)
}

// browseOldestFirst returns the records of a window in the order of lists.
func (r *mutantReader) browseOldestFirst(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	found, err := r.Reader.Browse(ctx, req)
	slices.Reverse(found)
	return found, err
}
