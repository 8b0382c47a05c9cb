package servertest

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var recordRules = []rule{
	{"record: answers are kept byte by byte", answersAreExact},
	{"record: identities are kept bit by bit", identitiesAreExact},
	{"record: records share no memory with callers", recordsDoNotAlias},
	{"record: the store's clock moves and never goes back", clockGoesOn},
	{"stats: the records are counted by state", statsCount},
}

func answersAreExact(c *check) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	for _, a := range []store.Answer{
		{Status: 204, Envelope: nil},
		{Status: 200, Envelope: []byte{}},
		{Status: 200, Envelope: []byte{0}},
		{Status: 201, Envelope: []byte("a\x00b\x00")},
		{Status: 200, Envelope: []byte("\xff\xfe not UTF-8")},
		{Status: 200, Envelope: []byte(`{"b":1e2,"a":1, "a":2}`)},
		{Status: 599, Envelope: every},
		{Status: 200, Envelope: large},
	} {
		r := c.claimNew()
		c.settle(owner(r), store.Settlement{State: store.StateCompleted, Answer: a, ReplayFor: keep})
		expect := c.read(r.ID)
		expect.Answer = a
		c.wantUnchanged(expect)
		dup, _, err := c.store.Claim(c.Context(), request(r.ID))
		c.must("Claim", err)
		taken, _, err := c.store.TakeOver(c.Context(), request(r.ID), 1)
		c.must("TakeOver", err)
		before, _ := c.cancel(r.ID)
		for _, got := range []store.Record{dup, taken, before} {
			if diff := difference(got, expect); diff != "" {
				c.Errorf("record of a completed key: %s", diff)
			}
		}
	}
}

func identitiesAreExact(c *check) {
	var ones, halves store.ID
	for i := range ones {
		ones[i], halves[i] = 0xff, byte(i)<<7
	}
	for i, id := range []store.ID{{}, ones, halves} {
		req := request(id)
		req.Token = store.Token(id)
		req.Fingerprint.Version = []uint8{1, 127, 255}[i]
		copy(req.Fingerprint.Sum[16:], id[:])
		r := c.claim(req)
		want(c, "ID", r.ID, id)
		want(c, "Token", c.read(id).Token, req.Token)
		want(c, "Fingerprint", c.read(id).Fingerprint, req.Fingerprint)
	}
}

func recordsDoNotAlias(c *check) {
	r := c.claimNew()
	s := completion(200, "as it was")
	c.settle(owner(r), s)
	expect := c.read(r.ID)
	expect.Answer.Envelope = bytes.Clone(expect.Answer.Envelope)

	given := s.Answer.Envelope
	read := c.read(r.ID).Answer.Envelope
	dup, _, err := c.store.Claim(c.Context(), request(r.ID))
	c.must("Claim", err)
	before, _ := c.cancel(r.ID)
	for _, b := range [][]byte{given, read, dup.Answer.Envelope, before.Answer.Envelope} {
		copy(b, "XXXXXXXXX")
		c.wantUnchanged(expect)
	}
}

func clockGoesOn(c *check) {
	r := c.claimNew()
	last := r.Now
	if r.CreatedAt.After(r.Now) {
		c.Errorf("CreatedAt is %v after Now", r.CreatedAt.Sub(r.Now))
	}
	for range 10 {
		now := c.read(r.ID).Now
		if now.Before(last) {
			c.Fatalf("the store's clock went back by %v", last.Sub(now))
		}
		last = now
	}
	c.eventually("the store's clock moves", func() bool { return c.read(r.ID).Now.After(r.Now) })
}

func statsCount(c *check) {
	st, err := c.store.Stats(c.Context())
	c.must("Stats of an empty store", err)
	for _, n := range st.ByState {
		want(c, "records in an empty store", n, 0)
	}
	want(c, "OldestInProgress of an empty store", st.OldestInProgress, time.Duration(0))

	counts := make(map[store.State]int64)
	first := c.claimNew()
	counts[store.StateInProgress]++
	for _, s := range everyState {
		counts[s.put(c).State]++
	}
	after := c.claimNew().Now
	counts[store.StateInProgress]++
	st, err = c.store.Stats(c.Context())
	c.must("Stats", err)
	for state, n := range counts {
		if st.ByState[state] != n {
			c.Errorf("Stats().ByState[%d] = %d, want %d", state, st.ByState[state], n)
		}
	}
	if age := st.OldestInProgress; age < after.Sub(first.CreatedAt) || age > long {
		c.Errorf("OldestInProgress = %v, want at least %v", age, after.Sub(first.CreatedAt))
	}
}
