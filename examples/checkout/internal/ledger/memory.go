package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// Memory is a ledger beside a memstore. The zero Memory is empty.
type Memory struct {
	mu      sync.Mutex
	entries []Entry
}

var _ Ledger = (*Memory)(nil)

// Append implements [Ledger].
func (m *Memory) Append(ctx context.Context, e Entry) error {
	return memstore.Tx(ctx).Do(func() { m.add(e) })
}

// AppendOnComplete implements [Ledger].
func (m *Memory) AppendOnComplete(ctx context.Context, e Entry) error {
	return store.OnComplete(ctx, func(ctx context.Context) error { return m.Append(ctx, e) })
}

// AppendAtOnce implements [Ledger].
func (m *Memory) AppendAtOnce(_ context.Context, e Entry) error {
	m.add(e)
	return nil
}

// Tallies implements [Ledger].
func (m *Memory) Tallies(context.Context) ([]Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byOrder := make(map[string]*Tally)
	for _, e := range m.entries {
		t := byOrder[e.Order]
		if t == nil {
			t = &Tally{Order: e.Order}
			byOrder[e.Order] = t
		}
		t.IDs = append(t.IDs, e.ID)
		t.Cents += e.Cents
	}
	tallies := make([]Tally, 0, len(byOrder))
	for _, t := range byOrder {
		tallies = append(tallies, *t)
	}
	slices.SortFunc(tallies, func(a, b Tally) int { return cmp.Compare(a.Order, b.Order) })
	return tallies, nil
}

func (m *Memory) add(e Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, e)
}
