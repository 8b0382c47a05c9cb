package servertest

import (
	"github.com/fanonce/fanonce/server/store"
)

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
