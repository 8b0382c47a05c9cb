package redisstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Resolve implements [store.OperatorStore].
func (s *Store) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	return s.moveOn(ctx, resolveScript, req.ID, req.From, int(req.To), req.Token[:],
		req.Answer.Status, flag(req.Answer.Envelope != nil), req.Answer.Envelope, micros(req.ReplayFor), micros(req.KeepAnswer),
		micros(req.Keep), req.RecoveryAttempts, flag(req.MaybeRan), string(req.By.Verb), req.By.Actor, req.By.Reason)
}

// Forget implements [store.OperatorStore].
func (s *Store) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	return s.moveOn(ctx, forgetScript, id, from, string(by.Verb), by.Actor, by.Reason)
}

// Defer implements [store.OperatorStore].
func (s *Store) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := store.CheckLease(d); err != nil {
		return false, err
	}
	_, won, err := s.moveOn(ctx, deferScript, id, from, micros(d))
	return won, err
}

// everywhere sends a script to every bucket, all at once. It returns the replies in the order of the buckets, or the
// first error.
func (s *Store) everywhere(ctx context.Context, script *script, keys func(b *bucket) []string, args ...any) ([][]any, error) {
	calls := make([]*call, 0, buckets)
	for i := range s.buckets {
		b := &s.buckets[i]
		c, err := s.begin(ctx, script, b, keys(b), args...)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	replies := make([][]any, len(calls))
	for i, c := range calls {
		value, err := s.end(ctx, c)
		if err != nil {
			return nil, err
		}
		replies[i] = list(value)
	}
	return replies, nil
}

// attention is the answer of the Reader. It asks every bucket for three numbers.
func (s *Store) attention(ctx context.Context) (store.Attention, error) {
	replies, err := s.everywhere(ctx, attentionScript, func(b *bucket) []string { return []string{b.unknown, b.quarantined, b.letters} })
	if err != nil {
		return store.Attention{}, err
	}
	var a store.Attention
	for _, l := range replies {
		a.Unknown += integer(l, 0)
		a.Quarantined += integer(l, 1)
		a.DeadLetters += integer(l, 2)
		for i := 4; i < 7; i++ {
			a.Oldest = max(a.Oldest, age(text(l, 3), text(l, i)))
		}
	}
	return a, nil
}
