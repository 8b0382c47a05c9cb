package servertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

const (
	namesTheLost    = "renew: owners are renewed, and lost owners are named"
	passesByHeld    = "tx renew: a held record leaves the other owners alone"
	waitsForUndo    = "tx renew: a renewal does not overtake an undo"
	asTheModelSays  = "model: a thousand random calls, as the model says"
	shortensNothing = "renew: a lease is never shortened"
)

var renewDefects = []defect{
	{"renews whoever owns the key now", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			var now []store.Owner
			for _, o := range owners {
				if r, err := m.Store.Read(ctx, o.ID); err == nil && r.State == store.StateInProgress {
					now = append(now, owner(r))
				}
			}
			_, err := m.Store.Renew(ctx, now, lease)
			return store.Renewal{Renewed: owners}, err
		}
	}, []string{
		namesTheLost,
		"renew: a renewed key is not taken over",
		"settle: an owner whose key was taken over changes nothing",
	}},
	{"loses who is late", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			var lost, punctual []store.Owner
			for _, o := range owners {
				if r, err := m.Store.Read(ctx, o.ID); err == nil && r.LeaseLeft() <= 0 {
					lost = append(lost, o)
				} else {
					punctual = append(punctual, o)
				}
			}
			got, err := m.Store.Renew(ctx, punctual, lease)
			got.Lost = append(got.Lost, lost...)
			return got, err
		}
	}, []string{
		"renew: an owner past its lease is renewed if nobody took the key over",
		"history: 32 owners at random over 12 keys",
		asTheModelSays,
	}},
	{"renews nobody", func(m *mutant) {
		m.renew = func(_ context.Context, owners []store.Owner, _ time.Duration) (store.Renewal, error) {
			return store.Renewal{Renewed: owners}, nil
		}
	}, []string{"renew: an owner past its lease is renewed if nobody took the key over"}},
	{"names nobody", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			_, err := m.Store.Renew(ctx, owners, lease)
			return store.Renewal{}, err
		}
	}, []string{namesTheLost, asTheModelSays}},
	{"names an owner twice", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, err := m.Store.Renew(ctx, owners, lease)
			got.Renewed = append(got.Renewed, got.Lost...)
			return got, err
		}
	}, []string{namesTheLost}},
	{"chokes on an empty batch", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			if len(owners) == 0 {
				return store.Renewal{}, errors.New("syntax error")
			}
			return m.Store.Renew(ctx, owners, lease)
		}
	}, []string{"renew: an empty list renews nothing"}},
	{"shortens leases", func(m *mutant) {
		var short sync.Map // leases of the last renewals
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			for _, o := range owners {
				short.Store(o.ID, lease)
			}
			return m.Store.Renew(ctx, owners, lease)
		}
		m.show = func(r store.Record) store.Record {
			if lease, ok := short.Load(r.ID); ok {
				r.LeaseUntil = r.Now.Add(lease.(time.Duration))
			}
			return r
		}
	}, []string{shortensNothing}},
	{"lets one held record fail every renewal", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, err := m.Store.Renew(ctx, owners, lease)
			if err != nil {
				return store.Renewal{}, err
			}
			return got, nil
		}
	}, []string{passesByHeld, asTheModelSays}},
	{"waits for a held record", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, err := m.Store.Renew(ctx, owners, lease)
			if err != nil {
				time.Sleep(aMoment + time.Millisecond)
			}
			return got, err
		}
	}, []string{passesByHeld}},
	{"takes the owner of a held record for lost", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, err := m.Store.Renew(ctx, owners, lease)
			got.Lost = append(got.Lost, unnamed(owners, got)...)
			return got, err
		}
	}, []string{passesByHeld, waitsForUndo, asTheModelSays}},
	{"takes the owner of a held record for renewed", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, err := m.Store.Renew(ctx, owners, lease)
			got.Renewed = append(got.Renewed, unnamed(owners, got)...)
			return got, err
		}
	}, []string{passesByHeld, waitsForUndo, asTheModelSays}},
	{"says nothing of a held record", func(m *mutant) {
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			got, _ := m.Store.Renew(ctx, owners, lease)
			return got, nil
		}
	}, []string{passesByHeld, asTheModelSays}},
}

// unnamed returns the owners that are not in got.
func unnamed(owners []store.Owner, got store.Renewal) []store.Owner {
	return slices.DeleteFunc(slices.Clone(owners), func(o store.Owner) bool {
		return slices.Contains(got.Renewed, o) || slices.Contains(got.Lost, o)
	})
}
