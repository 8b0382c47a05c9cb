package natsstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Settle implements [store.Store]. In the process that claimed the key it costs one round trip, else two.
func (s *Store) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := checkSettlement(end); err != nil {
		return err
	}
	c, err := s.change(ctx, o.ID, s.runs.of(o), nil, func(e *entry, now time.Time) (verdict, error) {
		if e.ownedBy(o) {
			e.settle(end, now)
			return writeIt, nil
		}
		again := e.exists() && e.State == store.StateCompleted && end.State == store.StateCompleted
		if again && e.Token == o.Token && e.Fence == o.Fence {
			return keepIt, nil
		}
		return keepIt, store.ErrLeaseLost
	})
	if err == nil {
		s.runs.note(c.after)
	}
	return err
}

// renewers is how many renewals of one call are on their way at once.
const renewers = 32

// Renew implements [store.Store]. Each owner costs one round trip in the process that claimed the key, else two.
func (s *Store) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if err := checkLength(lease); err != nil {
		return store.Renewal{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Renewal{}, err
	}
	var (
		mu     sync.Mutex
		got    store.Renewal
		errs   error
		wg     sync.WaitGroup
		places = make(chan struct{}, renewers)
	)
	for _, o := range owners {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			err := s.renew(ctx, o, lease)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got.Renewed = append(got.Renewed, o)
			case errors.Is(err, store.ErrLeaseLost):
				got.Lost = append(got.Lost, o)
			case errs == nil:
				errs = err // one is enough: they have the same reason
			}
		})
	}
	wg.Wait()
	return got, errs
}

func (s *Store) renew(ctx context.Context, o store.Owner, lease time.Duration) error {
	known := s.runs.of(o)
	if known != nil && !s.now().Add(lease).After(known.LeaseUntil) {
		known = nil // nothing to write: then memory alone would decide
	}
	c, err := s.change(ctx, o.ID, known, nil, func(e *entry, now time.Time) (verdict, error) {
		if !e.ownedBy(o) {
			return keepIt, store.ErrLeaseLost
		}
		if !e.renew(lease, now) {
			return keepIt, nil
		}
		return writeIt, nil
	})
	if err == nil && c.did == writeIt {
		s.runs.note(c.after)
	}
	return err
}
