package servertest

import (
	"errors"
	"sync/atomic"

	"github.com/fanonce/fanonce/server/store"
)

var sweepRules = []rule{
	{"sweep: exactly the expired records that no call needs are deleted", sweepTakesWhatItMay},
	{"sweep: a call deletes at most limit records, and repeated calls delete all", sweepIsBounded},
	{"sweep: a swept key can be claimed as a new one", sweptKeyIsNew},
	{"sweep: concurrent sweepers count each record once", sweepersShare},
	{"sweep: a run that is taken over meanwhile is not deleted", sweepRacesTakeOver},
}

// untilExpired waits until the store's clock is past the record's retention,
// and past the time for replays of its answer unless that time is long.
func (c *check) untilExpired(r store.Record) {
	c.Helper()
	c.eventually("the retention ends", func() bool {
		got := c.read(r.ID)
		replayable := got.ReplayUntil.Sub(got.Now)
		return got.Now.After(got.ExpiresAt) && (replayable < 0 || replayable > long)
	})
}

func sweepTakesWhatItMay(c *check) {
	var stay, due []store.Record
	for _, s := range everyState {
		stay = append(stay, s.put(c)) // inside its retention
	}
	c.expiring = true
	for _, s := range everyState {
		r := s.put(c)
		c.untilExpired(r)
		if sweepable(r, s) {
			due = append(due, r)
		} else {
			stay = append(stay, r)
		}
	}
	spent := putSettled(pastReplay)(c)
	c.untilExpired(spent)
	due = append(due, spent)

	n, err := c.store.Sweep(c.Context(), 1000)
	c.must("Sweep", err)
	want(c, "records swept", n, len(due))
	for _, r := range stay {
		c.wantUnchanged(r)
	}
	for _, r := range due {
		c.wantAbsent(r.ID)
	}
	n, err = c.store.Sweep(c.Context(), 1000)
	c.must("Sweep repeated", err)
	want(c, "records swept by a second sweep", n, 0)
}

// pastReplay completes a run whose answer can be replayed only for a short time.
var pastReplay = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200}, ReplayFor: gone}

// sweepable reports whether a sweep deletes an expired record that was put in
// situation s. A completed record can still be replayed.
func sweepable(r store.Record, s situation) bool {
	switch r.State {
	case store.StateCancelled, store.StateReleased:
		return true
	case store.StateInProgress:
		return s.dead && r.Effect != store.Opaque
	default:
		return false
	}
}

// spend leaves n records that a sweep may take, and returns them.
func (c *check) spend(n int) []store.Record {
	c.Helper()
	c.expiring = true
	var spent []store.Record
	for range n {
		spent = append(spent, putCancelledFirst(c))
	}
	c.untilExpired(spent[n-1])
	return spent
}

func sweepIsBounded(c *check) {
	c.spend(25)
	left := 25
	for calls := 0; left > 0; calls++ {
		n, err := c.store.Sweep(c.Context(), 10)
		c.must("Sweep", err)
		if n < 1 || n > 10 || n > left || calls > 25 {
			c.Fatalf("Sweep with limit 10 and %d records due = %d", left, n)
		}
		left -= n
		st, err := c.store.Stats(c.Context())
		c.must("Stats", err)
		want(c, "records left", st.ByState[store.StateCancelled], int64(left))
	}
}

func sweptKeyIsNew(c *check) {
	r := c.spend(1)[0]
	n, err := c.store.Sweep(c.Context(), 1)
	c.must("Sweep", err)
	want(c, "records swept", n, 1)
	want(c, "fence of a swept key's next owner", c.claim(request(r.ID)).Fence, 1)
}

func sweepersShare(c *check) {
	c.spend(40)
	var swept atomic.Int32
	runAtOnce(8, func(int) {
		for range 10 {
			n, err := c.store.Sweep(c.Context(), 3)
			if err != nil {
				c.Errorf("Sweep: error = %v, want none", err)
			}
			swept.Add(int32(n))
		}
	})
	c.eventually("a sweep finds nothing more", func() bool { // a busy record may have been left
		n, err := c.store.Sweep(c.Context(), 40)
		c.must("Sweep", err)
		swept.Add(int32(n))
		return n == 0
	})
	want(c, "records swept by all", swept.Load(), 40)
}

func sweepRacesTakeOver(c *check) {
	c.expiring = true
	for range 20 {
		r := putDead(store.Keyed)(c)
		c.untilExpired(r)
		var won bool
		var takeErr, sweepErr error
		runAtOnce(2, func(i int) {
			if i == 0 {
				_, won, takeErr = c.store.TakeOver(c.Context(), request(r.ID), 1)
			} else {
				_, sweepErr = c.store.Sweep(c.Context(), 10)
			}
		})
		c.must("Sweep", sweepErr)
		if errors.Is(takeErr, store.ErrNotFound) {
			continue // swept first
		}
		c.must("TakeOver", takeErr)
		want(c, "TakeOver of a key that was not swept: won", won, true)
		want(c, "fence after a take-over beside a sweep", c.read(r.ID).Fence, 2)
	}
}

var answerRules = []rule{
	{"answer: KeepAnswer ends the answer before the record", answerHasItsTime},
	{"answer: without KeepAnswer the answer is kept as long as the record", answerStays},
}

// keeping is completion with a time of its own for the answer.
func keeping(s store.Settlement) store.Settlement {
	s.KeepAnswer = brief
	return s
}

func answerHasItsTime(c *check) {
	settled := c.claimNew()
	c.settle(owner(settled), keeping(completion(201, "soon gone")))
	req := resolution(putSettled(giveUp)(c), store.StateCompleted)
	req.KeepAnswer = brief
	resolved := c.resolve(req)
	for _, id := range []store.ID{settled.ID, resolved.ID} {
		r := c.read(id)
		left := r.AnswerUntil.Sub(r.CreatedAt)
		want(c, "AnswerUntil is set", left > 0 && left < long, true)
		c.eventually("the answer's time ends", func() bool {
			r = c.read(id)
			if gone := !r.Now.Before(r.AnswerUntil); gone != (r.Answer.Envelope == nil) {
				c.Fatalf("envelope %s, %v before the end of its time", brand(r.Answer.Envelope), r.AnswerUntil.Sub(r.Now))
			}
			return r.Answer.Envelope == nil
		})
		want(c, "Status without the answer", r.Answer.Status, 201)
		want(c, "State without the answer", r.State, store.StateCompleted)
		for range 3 {
			_, err := c.store.Sweep(c.Context(), 1000)
			c.must("Sweep", err)
		}
		c.wantUnchanged(r)
		dup, won, err := c.store.Claim(c.Context(), request(id))
		c.must("Claim", err)
		want(c, "Claim of a key whose answer is gone", won, false)
		if diff := difference(dup, r); diff != "" {
			c.Errorf("record of a key whose answer is gone: %s", diff)
		}
	}
}

func answerStays(c *check) {
	r := c.claimNew()
	c.settle(owner(r), completion(200, "ok"))
	r = c.read(r.ID)
	want(c, "AnswerUntil", r.AnswerUntil.IsZero(), true)
	short := c.claimNew()
	c.settle(owner(short), keeping(completion(200, "ok")))
	c.eventually("another answer's time ends", func() bool { return c.read(short.ID).Answer.Envelope == nil })
	_, err := c.store.Sweep(c.Context(), 1000)
	c.must("Sweep", err)
	c.wantUnchanged(r)
}
