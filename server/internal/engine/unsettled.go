package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// The bounds of the work that an engine goes on with after the call has been answered.
const (
	maxUnsettled      = 10_000
	maxUnsettledBytes = 64 << 20
	// unsettledAtOnce is how many of them are at the store at the same time. A store combines such writes.
	unsettledAtOnce = 32
	// maxUnsettledPause is the longest pause before another try. Until then another process may find the key dead.
	maxUnsettledPause = time.Second
)

// unsettled are the writes that a stall of the store left open when their calls had to be answered: claims that nobody
// will run, and ends of runs. The engine goes on with them until the store answers. Otherwise a slow disk would leave a
// claim without an owner, which counts as a death of a run and, if it is Opaque, needs a person.
//
// They need neither a goroutine nor a timer while there are none. A shutdown tries them once more. If the process dies
// before, the effect class decides, as after any death.
type unsettled struct {
	engine *Engine

	mu     sync.Mutex
	writes []*unsettledWrite
	bytes  int
	timer  *time.Timer   // of the next round; nil until the first
	round  chan struct{} // closed at the end of the round that is going on; nil: none is
	closed bool          // by the shutdown: no further round begins by itself
}

// An unsettledWrite is one of them.
type unsettledWrite struct {
	route string
	id    store.ID
	token store.Token
	since time.Time
	bytes int
	ends  bool // a run; false: it gives up a claim
	// try does the write. It returns nil, or an answer of the store, if the store said what became of it.
	try func(context.Context) error
}

// giveUpClaim releases a claim whose fate is unknown, and which its call has given up. from is the fence that it was to
// take the key over from; 0 for an absent key.
//
// The claim is repeated with its own token, which finds it if it was made, and waits for the transaction that may still
// make it. Nothing ever runs under that token.
func (u *unsettled) giveUpClaim(c *Call, req store.ClaimRequest, from int64) {
	s := u.engine.store
	req.Asynchronous = false
	u.add(&unsettledWrite{route: c.Route.Name, id: c.ID, token: req.Token, bytes: len(req.Memo), try: func(ctx context.Context) error {
		var rec store.Record
		var err error
		if from == 0 {
			rec, _, err = s.Claim(ctx, req)
		} else {
			rec, _, err = s.TakeOver(ctx, req, from)
		}
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExpired): // it is gone
			return nil
		case err != nil || rec.Token != req.Token:
			return err
		}
		return s.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: rec.Fence}, store.Settlement{State: store.StateReleased})
	}})
}

// settleLater goes on with a settlement of o that the store did not answer.
func (u *unsettled) settleLater(c *Call, o store.Owner, s store.Settlement) {
	u.add(&unsettledWrite{route: c.Route.Name, id: o.ID, token: o.Token, bytes: len(s.Answer.Envelope), ends: true, try: func(ctx context.Context) error {
		return u.engine.store.Settle(ctx, o, s)
	}})
}

func (u *unsettled) add(w *unsettledWrite) {
	w.since = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.writes) >= maxUnsettled || u.bytes+w.bytes > maxUnsettledBytes {
		return // its lease ends, as after a death
	}
	u.writes = append(u.writes, w)
	u.bytes += w.bytes
	u.schedule()
}

// decides reports whether rec belongs to one of the writes, which will soon say what became of it.
func (u *unsettled) decides(rec *store.Record) bool {
	if rec.State != store.StateInProgress && rec.State != store.StateUnknown {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.writes, func(w *unsettledWrite) bool { return w.token == rec.Token && w.id == rec.ID })
}

// schedule makes a round due, unless one is going on. The pause grows with the age of the youngest write: most stalls
// are short. The caller holds mu.
func (u *unsettled) schedule() {
	if u.closed || u.round != nil || len(u.writes) == 0 {
		return
	}
	age := time.Since(u.writes[len(u.writes)-1].since)
	pause := max(minRetryAfter, min(age/4, maxUnsettledPause))
	if u.timer == nil {
		u.timer = time.AfterFunc(pause, func() { u.tryAll(context.Background()) })
		return
	}
	u.timer.Reset(pause)
}

// begin returns the writes to try; false if a round is going on.
func (u *unsettled) begin() (writes []*unsettledWrite, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.round != nil {
		return nil, false
	}
	u.round = make(chan struct{})
	return u.writes[:len(u.writes):len(u.writes)], true
}

// end forgets the writes that the store answered. Those that came during the round are behind the others.
func (u *unsettled) end(failures []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var left []*unsettledWrite
	for i, w := range u.writes {
		if i < len(failures) && failures[i] == nil {
			u.bytes -= w.bytes
			continue
		}
		left = append(left, w)
	}
	u.writes = left
	close(u.round)
	u.round = nil
	u.schedule()
}

// tryAll is a round: it tries each write once. The Observer hears of the failures when the round is over, because it
// may take its time, or shut the guard down.
func (u *unsettled) tryAll(ctx context.Context) {
	writes, ok := u.begin()
	if !ok {
		return
	}
	failures := make([]error, len(writes))
	var all sync.WaitGroup
	places := make(chan struct{}, unsettledAtOnce)
	for i, w := range writes {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			failures[i] = u.try(ctx, w)
		})
	}
	all.Wait()
	u.end(failures)
	for i, err := range failures {
		if err != nil {
			w := writes[i]
			u.engine.observe(context.Background(), store.Event{Kind: store.EventSettleRetry, Route: w.route, ID: w.id, Err: err})
		}
	}
}

// try returns nil if the store said what became of w, whatever it said.
func (u *unsettled) try(ctx context.Context, w *unsettledWrite) error {
	ctx, cancel := context.WithTimeout(ctx, u.engine.cfg.StoreTimeout)
	defer cancel()
	err := w.try(ctx)
	if isAnswer(err) || errors.Is(err, store.ErrArgument) || errors.Is(err, store.ErrRecordUnreadable) {
		return nil
	}
	return err
}

// wait tries the writes once more, for a shutdown. Its error says that ends of runs were not recorded.
func (u *unsettled) wait(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
	round := u.round
	u.mu.Unlock()
	if round != nil {
		select {
		case <-round:
		case <-ctx.Done():
		}
	}
	u.tryAll(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	ends := 0
	for _, w := range u.writes {
		if w.ends {
			ends++
		}
	}
	if ends > 0 {
		return fmt.Errorf("server: shutdown: the store did not answer the ends of %d runs", ends)
	}
	return nil
}
