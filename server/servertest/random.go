package servertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var modelRules = []rule{{"model: a thousand random calls, as the model says", func(c *check) {
	c.againstModel(rand.Uint64(), 1000)
}}}

// CheckModel makes random calls one after the other: steps calls, drawn from
// seed. It fails tb at the first call after which the store differs from a
// model. The failure names the seed and the calls for the key. store must be
// empty.
func CheckModel(tb testing.TB, s store.Store, seed uint64, steps int) {
	tb.Helper()
	c := &check{TB: tb, store: s}
	c.againstModel(seed, steps)
}

// agedFor is how long ago the keys with an old first-sent time were first sent.
const agedFor = time.Hour

// A step is one random call, with the arguments of all methods.
type step struct {
	method      string
	id          store.ID
	token       store.Token
	fence       int64
	effect      store.Effect
	fingerprint store.Fingerprint
	lease, keep time.Duration // the constant gone or long
	firstSent   time.Time     // zero, old or now
	parent      store.ID      // zero or another
	undone      bool          // of a cancel
	old         time.Time
	window      time.Duration // shorter or longer than agedFor
	grave       store.State
	verdict     store.State // of a resolution
	deaths      int
	end         store.Settlement
	others      []store.Owner // of a renewal: further owners beside the step's own
	held        store.ID      // of a renewal: a transaction holds this record meanwhile; zero: none does
}

func (s step) String() string {
	return fmt.Sprintf("%s by %x from fence %d: effect %d, lease %v, keep %v, window %v, first sent %v, grave %d, verdict %d, end %d %v %v, %d others, held %v",
		s.method, s.token[:2], s.fence, s.effect, s.lease, s.keep, s.window, s.firstSent, s.grave, s.verdict, s.end.State, s.end.MaybeRan, s.end.ReplayFor, len(s.others), s.held == s.id)
}

// owner is the owner that makes the step.
func (s step) owner() store.Owner { return store.Owner{ID: s.id, Token: s.token, Fence: s.fence} }

func (s step) request() store.ClaimRequest {
	return store.ClaimRequest{
		ID: s.id, Token: s.token, Fingerprint: s.fingerprint, Effect: s.effect,
		Lease: s.lease, Keep: s.keep, FirstSent: s.firstSent, Window: s.window, Parent: s.parent,
	}
}

func (s step) resolution() store.ResolveRequest {
	req := store.ResolveRequest{
		ID: s.id, From: s.fence, To: s.verdict, Token: s.token, RecoveryAttempts: s.deaths, MaybeRan: s.end.MaybeRan, Keep: s.keep, By: someone,
	}
	if s.verdict == store.StateCompleted {
		req.Answer, req.ReplayFor = s.end.Answer, s.end.ReplayFor
	}
	return req
}

var methods = []string{
	"claim", "claim", "claim", "take over", "take over", "take over", "settle", "settle", "settle", "quarantine", "renew", "renew", "cancel", "sweep",
	"resolve", "resolve", "defer", "forget",
}

// script draws steps for three keys and three owners.
type script struct {
	*rand.Rand
	ids    [3]store.ID
	tokens [3]store.Token
	now    time.Time
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (r *script) draw(m model) step {
	slot := r.IntN(len(r.ids))
	if k := m[r.ids[slot]]; k != nil && k.State != store.StateInProgress && k.State != store.StateReleased && r.IntN(4) == 0 {
		r.ids[slot] = newID() // few calls can still change the old one
	}
	s := step{
		method: pick(r.Rand, methods...),
		id:     r.ids[slot],
		token:  r.tokens[r.IntN(len(r.tokens))],
		effect: pick(r.Rand, store.Transactional, store.Keyed, store.Opaque),
		lease:  pick(r.Rand, gone, long),
		keep:   pick(r.Rand, gone, long),
		undone: pick(r.Rand, true, false),
		old:    r.now.Add(-agedFor),
		window: pick(r.Rand, agedFor/2, 2*agedFor, 2*agedFor),
		grave:  pick(r.Rand, store.StateUnknown, store.StateQuarantined),
		deaths: r.IntN(3),
	}
	s.fingerprint = store.Fingerprint{Version: 1, Sum: [32]byte{byte(r.Uint32())}}
	s.firstSent = pick(r.Rand, time.Time{}, s.old, r.now)
	s.parent = pick(r.Rand, store.ID{}, store.ID{byte(r.Uint32())})
	s.end = store.Settlement{
		State:     pick(r.Rand, store.StateCompleted, store.StateReleased, store.StateReleased, store.StateUnknown, store.StateInProgress),
		ReplayFor: pick(r.Rand, gone, long),
		MaybeRan:  r.IntN(4) == 0,

		FailedAttempts: pick(r.Rand, 0, 1, 200, store.MaxFailedAttempts),
	}
	s.verdict = pick(r.Rand, store.StateCompleted, store.StateReleased, store.StateCancelled)
	if s.end.State == store.StateCompleted || s.method == "resolve" && s.verdict == store.StateCompleted {
		s.end.Answer = store.Answer{Status: 200 + r.IntN(300), Envelope: pick(r.Rand, nil, []byte{}, []byte{byte(r.Uint32()), 0, 'x'})}
	}
	if k := m[s.id]; k != nil && r.IntN(5) > 0 { // mostly by the present owner
		s.fence = k.Fence
		if s.method == "settle" || s.method == "renew" {
			s.token = k.Token
		}
	} else {
		s.fence = r.Int64N(4)
	}
	if s.method == "renew" {
		r.renewal(m, &s)
	}
	return s
}

// renewal adds the owners of other keys to s, mostly the present ones, and lets
// a transaction hold some of the records.
func (r *script) renewal(m model, s *step) {
	for _, id := range r.ids {
		if id == s.id || r.IntN(2) == 0 {
			continue
		}
		o := store.Owner{ID: id, Token: r.tokens[r.IntN(len(r.tokens))], Fence: r.Int64N(4)}
		if k := m[id]; k != nil && r.IntN(5) > 0 {
			o.Token, o.Fence = k.Token, k.Fence
		}
		s.others = append(s.others, o)
	}
	if r.IntN(2) == 0 {
		s.held = r.ids[r.IntN(len(r.ids))]
	}
}
