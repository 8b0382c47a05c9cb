package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Renew implements [store.Store]. It waits for nobody: each lease has a script of its own, and all of them are sent at
// once.
func (s *Store) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if err := store.CheckLease(lease); err != nil {
		return store.Renewal{}, err
	}
	calls := make([]*call, len(owners))
	var failures []error
	for i, o := range owners {
		b := s.bucketOf(o.ID)
		c, err := s.begin(ctx, renewScript, b, []string{b.record(o.ID)}, packOwner(o.Fence, o.Token), micros(lease), margin)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		calls[i] = c
	}
	var got store.Renewal
	for i, c := range calls {
		if c == nil {
			continue
		}
		value, err := s.end(ctx, c)
		switch owned, _ := value.(int64); {
		case err != nil:
			failures = append(failures, err)
		case owned == 1:
			got.Renewed = append(got.Renewed, owners[i])
		default:
			got.Lost = append(got.Lost, owners[i])
		}
	}
	if len(failures) > 0 {
		return got, fmt.Errorf("redisstore: %d of %d leases not renewed: %w", len(failures), len(owners), failures[0])
	}
	return got, nil
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := end.Check(); err != nil {
		return err
	}
	maybe := flag(end.MaybeRan)
	if end.State == store.StateCompleted {
		return s.complete(ctx, o, end, maybe)
	}
	code, _, err := s.move(ctx, settleScript, o.ID, o.Fence, o.Token[:], int(end.State), maybe, end.FailedAttempts)
	if err == nil && code != codeYes {
		err = store.ErrLeaseLost
	}
	return err
}

func (s *Store) complete(ctx context.Context, o store.Owner, end store.Settlement, maybe string) error {
	b := s.bucketOf(o.ID)
	var status [8]byte
	putNumber(status[:], float64(end.Answer.Status))
	value, err := s.do(ctx, completeScript, b, []string{b.record(o.ID), b.active, b.final, b.letters, b.answers, b.unknown},
		o.ID[:], packOwner(o.Fence, o.Token), maybe, micros(end.ReplayFor), micros(end.KeepAnswer),
		flag(end.DeadLetter), status[:], flag(end.Answer.Envelope != nil), end.Answer.Envelope, margin, s.channel())
	if err != nil {
		return err
	}
	if owned, _ := value.(int64); owned != 1 {
		return store.ErrLeaseLost
	}
	return nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	before, _, err := s.moveOn(ctx, cancelScript, req.ID, req.Token[:], micros(req.Keep), flag(req.Undone), packTombstone(req.Token))
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{}, false, nil
	}
	return before, err == nil, err
}
