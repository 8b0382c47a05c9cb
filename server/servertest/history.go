package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/fanonce/fanonce/server"
)

var historyLaws = []law{{"history: 32 owners at random over 12 keys", randomOwners}}

const historySteps = 40

// An actor calls the store at random, and writes down what it saw.
type actor struct {
	c    *check
	ids  []server.ID
	mine []server.Owner        // whom it was, dead or alive
	lost map[server.Owner]bool // who cannot settle any more, as a renewal said
	seen []sighting
	err  error
}

// A sighting is a record as a call returned it.
type sighting struct {
	server.Record
	won     bool // the call made its caller the owner
	settled bool // the call completed the run of this token and fence
	renewed bool // the call renewed the lease of this token and fence
}

func randomOwners(c *check) {
	ids := make([]server.ID, 12)
	for i := range ids {
		ids[i] = newID()
	}
	actors := make([]*actor, 32)
	together(len(actors), func(i int) {
		actors[i] = &actor{c: c, ids: ids, lost: make(map[server.Owner]bool)}
		for range historySteps {
			actors[i].act()
		}
	})
	h := history{c: c, owners: make(map[server.ID]map[int64]server.Token), completed: make(map[server.ID]int64)}
	for _, a := range actors {
		c.must("a random call", a.err)
		h.add(a.seen)
	}
	for id, fence := range h.completed {
		r := c.read(id)
		want(c, "state of a key whose completion was acknowledged", r.State, server.StateCompleted)
		want(c, "fence of a key whose completion was acknowledged", r.Fence, fence)
	}
}

func (a *actor) act() {
	ctx, id := a.c.Context(), a.ids[rand.IntN(len(a.ids))]
	if len(a.mine) > 0 && rand.IntN(3) == 0 {
		a.settle(a.mine[rand.IntN(len(a.mine))])
		return
	}
	if len(a.mine) > 0 && rand.IntN(4) == 0 {
		a.renew()
		return
	}
	r, err := a.c.store.Read(ctx, id)
	req := request(id)
	if rand.IntN(3) > 0 {
		req.Lease = gone
	}
	if errors.Is(err, server.ErrNotFound) {
		a.own(a.c.store.Claim(ctx, req))
		return
	}
	a.see(r, err)
	switch rand.IntN(12) {
	case 0:
		before, _, err := a.c.store.Cancel(ctx, server.CancelRequest{ID: id, Token: newToken(), Keep: keep})
		a.see(before, err)
	case 1:
		r, _, err := a.c.store.Bury(ctx, grave(r, server.StatePoisoned))
		a.see(r, err)
	default:
		a.own(a.c.store.TakeOver(ctx, req, r.Fence))
	}
}

func (a *actor) own(r server.Record, won bool, err error) {
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.seen = append(a.seen, sighting{Record: r, won: won})
	if won {
		a.mine = append(a.mine, owner(r))
	}
}

func (a *actor) see(r server.Record, err error) {
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.seen = append(a.seen, sighting{Record: r})
}

func (a *actor) settle(o server.Owner) {
	s := release
	if rand.IntN(6) == 0 {
		s = completion(200, string(o.Token[:]))
	}
	err := a.c.store.Settle(a.c.Context(), o, s)
	if err == nil && a.lost[o] {
		a.err = errors.Join(a.err, errors.New("an owner settled that a renewal took for lost"))
	}
	if err != nil && !errors.Is(err, server.ErrLeaseLost) {
		a.err = errors.Join(a.err, err)
	}
	if err == nil && s.State == server.StateCompleted {
		a.mine = slices.DeleteFunc(a.mine, func(mine server.Owner) bool { return mine == o }) // a renewal may say lost
		done := server.Record{ID: o.ID, State: server.StateCompleted, Token: o.Token, Fence: o.Fence, Answer: s.Answer}
		a.seen = append(a.seen, sighting{Record: done, settled: true})
	}
}

// renew renews all owners that the actor was, some dead and some alive, for a moment:
// the keys stay free for the others. Other actors hold some of the records meanwhile.
func (a *actor) renew() {
	got, err := a.c.store.Renew(a.c.Context(), a.mine, gone)
	left, misnamed := undecided(a.mine, got)
	a.err = errors.Join(a.err, misnamed)
	switch {
	case err == nil && len(left) > 0:
		a.err = errors.Join(a.err, fmt.Errorf("a renewal left %d owners undecided without an error", len(left)))
	case err != nil && len(left) == 0:
		a.err = errors.Join(a.err, err)
	}
	for _, o := range got.Lost {
		a.lost[o] = true
	}
	for _, o := range got.Renewed {
		if a.lost[o] {
			a.err = errors.Join(a.err, errors.New("an owner was renewed that was lost before"))
		}
		alive := server.Record{ID: o.ID, State: server.StateInProgress, Token: o.Token, Fence: o.Fence}
		a.seen = append(a.seen, sighting{Record: alive, renewed: true})
	}
}

// history is what all actors saw, by key.
type history struct {
	c         *check
	owners    map[server.ID]map[int64]server.Token // who ran at each fence
	completed map[server.ID]int64                  // at which fence
}

// add checks what one actor saw, in its order, and against the others.
func (h *history) add(seen []sighting) {
	h.c.Helper()
	last := make(map[server.ID]server.Record)
	for _, s := range seen {
		h.oneOwnerPerFence(s)
		if s.renewed {
			continue // no record
		}
		if s.State == server.StateCompleted {
			h.oneAnswer(s)
		}
		if s.settled {
			h.completed[s.ID] = s.Fence
			continue // no record, but an acknowledgement
		}
		if before, ok := last[s.ID]; ok {
			h.neverBack(before, s.Record)
		}
		last[s.ID] = s.Record
	}
}

func (h *history) oneOwnerPerFence(s sighting) {
	h.c.Helper()
	if s.State != server.StateInProgress && s.State != server.StateCompleted {
		return
	}
	if h.owners[s.ID] == nil {
		h.owners[s.ID] = make(map[int64]server.Token)
	}
	if other, ok := h.owners[s.ID][s.Fence]; ok && other != s.Token {
		h.c.Fatalf("fence %d of a key had the owners %x and %x", s.Fence, other, s.Token)
	}
	h.owners[s.ID][s.Fence] = s.Token
}

func (h *history) oneAnswer(s sighting) {
	h.c.Helper()
	if got, want := string(s.Answer.Envelope), string(s.Token[:]); got != want {
		h.c.Fatalf("answer of the run at fence %d = %x, want that of its owner, %x", s.Fence, got, want)
	}
	if at, ok := h.completed[s.ID]; ok && at != s.Fence {
		h.c.Fatalf("a key was completed at fence %d and at fence %d", at, s.Fence)
	}
}

// neverBack compares two sightings of a key by one actor.
func (h *history) neverBack(before, after server.Record) {
	h.c.Helper()
	final := before.State == server.StateCompleted || before.State == server.StateCancelled
	switch {
	case after.Fence < before.Fence:
		h.c.Fatalf("fence went from %d to %d", before.Fence, after.Fence)
	case after.Deaths < before.Deaths:
		h.c.Fatalf("deaths went from %d to %d", before.Deaths, after.Deaths)
	case before.MaybeRan && !after.MaybeRan:
		h.c.Fatal("what may have happened was forgotten")
	case after.Fingerprint != before.Fingerprint || !sameTime(after.CreatedAt, before.CreatedAt):
		h.c.Fatal("fingerprint or creation time changed")
	case final && (after.State != before.State || after.Fence != before.Fence):
		h.c.Fatalf("state %d was not final: %s", before.State, describe(after))
	}
}
