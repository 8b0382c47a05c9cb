package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/fanonce/fanonce/server/store"
)

var historyRules = []rule{{"history: 32 owners at random over 12 keys", randomOwners}}

const historySteps = 40

// An actor calls the store at random, and records what it saw.
type actor struct {
	c    *check
	ids  []store.ID
	mine []store.Owner        // the owners that it was, dead or alive
	lost map[store.Owner]bool // the owners that cannot settle any more, according to a renewal
	seen []sighting
	err  error
}

// A sighting is a record as a call returned it.
type sighting struct {
	store.Record
	won     bool // the call made its caller the owner
	settled bool // the call completed the run of this token and fence
	renewed bool // the call renewed the lease of this token and fence
}

func randomOwners(c *check) {
	ids := make([]store.ID, 12)
	for i := range ids {
		ids[i] = newID()
	}
	actors := make([]*actor, 32)
	runAtOnce(len(actors), func(i int) {
		actors[i] = &actor{c: c, ids: ids, lost: make(map[store.Owner]bool)}
		for range historySteps {
			actors[i].act()
		}
	})
	h := history{c: c, owners: make(map[store.ID]map[int64]store.Token), completed: make(map[store.ID]int64)}
	for _, a := range actors {
		c.must("a random call", a.err)
		h.add(a.seen)
	}
	for id, fence := range h.completed {
		r := c.read(id)
		want(c, "state of a key whose completion was acknowledged", r.State, store.StateCompleted)
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
	if errors.Is(err, store.ErrNotFound) {
		a.noteClaim(a.c.store.Claim(ctx, req))
		return
	}
	a.noteRecord(r, err)
	switch rand.IntN(12) {
	case 0:
		before, _, err := a.c.store.Cancel(ctx, store.CancelRequest{ID: id, Token: newToken(), Keep: keep})
		a.noteRecord(before, err)
	case 1:
		r, _, err := a.c.store.Quarantine(ctx, grave(r, store.StateQuarantined))
		a.noteRecord(r, err)
	default:
		a.noteClaim(a.c.store.TakeOver(ctx, req, r.Fence))
	}
}

func (a *actor) noteClaim(r store.Record, won bool, err error) {
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.seen = append(a.seen, sighting{Record: r, won: won})
	if won {
		a.mine = append(a.mine, owner(r))
	}
}

func (a *actor) noteRecord(r store.Record, err error) {
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.seen = append(a.seen, sighting{Record: r})
}

func (a *actor) settle(o store.Owner) {
	s := release
	if rand.IntN(6) == 0 {
		s = completion(200, string(o.Token[:]))
	}
	err := a.c.store.Settle(a.c.Context(), o, s)
	if err == nil && a.lost[o] {
		a.err = errors.Join(a.err, errors.New("an owner settled that a renewal took for lost"))
	}
	if err != nil && !errors.Is(err, store.ErrLeaseLost) {
		a.err = errors.Join(a.err, err)
	}
	if err == nil && s.State == store.StateCompleted {
		a.mine = slices.DeleteFunc(a.mine, func(mine store.Owner) bool { return mine == o }) // a renewal may say lost
		done := store.Record{ID: o.ID, State: store.StateCompleted, Token: o.Token, Fence: o.Fence, Answer: s.Answer}
		a.seen = append(a.seen, sighting{Record: done, settled: true})
	}
}

// renew renews all owners that the actor was, some dead and some alive. The new leases are short, so that the keys
// stay free for the others. Other actors hold some of the records meanwhile.
func (a *actor) renew() {
	got, err := a.c.store.Renew(a.c.Context(), a.mine, gone)
	left, misnamed := undecidedOwners(a.mine, got)
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
		alive := store.Record{ID: o.ID, State: store.StateInProgress, Token: o.Token, Fence: o.Fence}
		a.seen = append(a.seen, sighting{Record: alive, renewed: true})
	}
}

// history is what all actors saw, by key.
type history struct {
	c         *check
	owners    map[store.ID]map[int64]store.Token // the owner that ran at each fence
	completed map[store.ID]int64                 // at which fence
}

// add checks one actor's sightings, in their order, and against those of the others.
func (h *history) add(seen []sighting) {
	h.c.Helper()
	last := make(map[store.ID]store.Record)
	for _, s := range seen {
		h.oneOwnerPerFence(s)
		if s.renewed {
			continue // no record
		}
		if s.State == store.StateCompleted {
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
	if s.State != store.StateInProgress && s.State != store.StateCompleted {
		return
	}
	if h.owners[s.ID] == nil {
		h.owners[s.ID] = make(map[int64]store.Token)
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
func (h *history) neverBack(before, after store.Record) {
	h.c.Helper()
	final := before.State == store.StateCompleted || before.State == store.StateCancelled
	switch {
	case after.Fence < before.Fence:
		h.c.Fatalf("fence went from %d to %d", before.Fence, after.Fence)
	case after.RecoveryAttempts < before.RecoveryAttempts:
		h.c.Fatalf("deaths went from %d to %d", before.RecoveryAttempts, after.RecoveryAttempts)
	case before.MaybeRan && !after.MaybeRan:
		h.c.Fatal("what may have happened was forgotten")
	case after.Fingerprint != before.Fingerprint && (after.Fence == before.Fence || before.MaybeRan):
		h.c.Fatal("fingerprint changed")
	case !sameTime(after.CreatedAt, before.CreatedAt):
		h.c.Fatal("creation time changed")
	case final && (after.State != before.State || after.Fence != before.Fence):
		h.c.Fatalf("state %d was not final: %s", before.State, describe(after))
	}
}
