package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

// A result is what one setting lost.
type result struct {
	faults          int
	claims, answers int64 // acknowledged, and gone
	seconds         int64 // runs of a key after its first
	failed          int64 // calls that were refused, or whose fate was unknown
}

const (
	callers = 64
	work    = time.Millisecond // of a run
	lease   = time.Hour        // so that every second run is a loss, and no take-over
	pause   = 5 * time.Millisecond
)

// A key is what the callers know about one key. One caller has it at a time.
type key struct {
	id       store.ID
	runs     int
	claimed  bool // acknowledged
	answered bool // acknowledged
	lost     bool
}

// A load is the callers, and the store that each call uses: a fault may change it.
type load struct {
	store  atomic.Pointer[redisstore.Store]
	failed atomic.Int64
}

func newID() (id [16]byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}

// perform makes a run of every key, rate keys in a second.
func (l *load) perform(ctx context.Context, keys []key, rate int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(keys) && ctx.Err() == nil; i = next.Add(1) - 1 {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
				l.request(ctx, &keys[i])
			}
		})
	}
	wg.Wait()
}

// request is a request for the key, with a client that sends it until there is an answer.
func (l *load) request(ctx context.Context, k *key) {
	for ctx.Err() == nil {
		o, won := l.claim(ctx, k)
		if !won {
			return // a duplicate: the first run goes on, or is over
		}
		if k.claimed {
			k.lost = true
		}
		k.runs++
		k.claimed = true
		time.Sleep(work)
		if l.settle(ctx, o) {
			k.answered = true
			return
		}
		k.lost = true // the claim is gone; the client sends the request again
	}
}

// claim asks under one token until the store answers, as a guard and its client do together.
func (l *load) claim(ctx context.Context, k *key) (store.Owner, bool) {
	req := store.ClaimRequest{ID: k.id, Token: newID(), Effect: store.Keyed, Lease: lease, Keep: lease}
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		r, won, err := l.store.Load().Claim(call, req)
		cancel()
		if err == nil {
			return store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}, won
		}
		l.failed.Add(1)
		time.Sleep(pause)
	}
	return store.Owner{}, false
}

// settle reports false if the owner does not own the key any more.
func (l *load) settle(ctx context.Context, o store.Owner) bool {
	end := store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: o.Token[:]}, ReplayFor: lease}
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := l.store.Load().Settle(call, o, end)
		cancel()
		if err == nil || errors.Is(err, store.ErrLeaseLost) {
			return err == nil
		}
		l.failed.Add(1)
		time.Sleep(pause)
	}
	return false
}

// audit sends every request once more, and counts what is gone.
func (l *load) audit(ctx context.Context, keys []key) (r result) {
	answered := make([]bool, len(keys))
	for i := range keys {
		answered[i] = keys[i].answered
		keys[i].answered = false
	}
	runs := make([]int, len(keys))
	for i := range keys {
		runs[i] = keys[i].runs
	}
	l.perform(ctx, keys, 1<<20)
	for i := range keys {
		if keys[i].lost {
			r.claims++
		}
		if answered[i] && keys[i].runs > runs[i] {
			r.answers++
		}
		r.seconds += int64(max(keys[i].runs-1, 0))
	}
	r.failed = l.failed.Load()
	return r
}
