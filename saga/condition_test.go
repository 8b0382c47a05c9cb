package saga_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

var (
	weigh   = contract.Post[hold, hold]("shipping", "weigh", "/weights")
	unweigh = contract.Post[contract.Undo[hold, hold], struct{}]("shipping", "unweigh", "/weights/unweigh")
	ring    = contract.Post[order, hold]("mail", "ring", "/bells")
	unring  = contract.Post[contract.Undo[order, hold], struct{}]("mail", "unring", "/bells/unring")
)

// forked is a saga that reserves if needed says so, weighs what it reserved, rings afterwards in any case, and books
// what it reserved or nothing.
func forked(needed func(order) bool) *saga.Definition[order, receipt] {
	return saga.MustDefine("forked", 1, func(b *saga.Builder[order, receipt]) {
		b.UndoBudget(undoBudget)
		paid := saga.Step(b, pay, b.Input()).Undo(refund)
		held := saga.Step(b, reserve, b.Input()).Undo(release).
			When(saga.Map2(b.Input(), paid.Output(), func(o order, _ charge) bool { return needed(o) }))
		weighed := saga.Step(b, weigh, held.Output()).Undo(unweigh)
		rung := saga.Step(b, ring, b.Input()).Undo(unring).After(held)
		sent := saga.Step(b, book, saga.Map2(held.Or(saga.Const(b, hold{"none"})), paid.Output(), func(h hold, c charge) booking {
			return booking{h.ID, c.ID}
		})).After(weighed, rung).Pivot()
		saga.Return(b, saga.Map(sent.Output(), func(p parcel) receipt { return receipt(p) }))
	})
}

func isDear(o order) bool { return o.Cents > 50 }

// skippedIn are the steps that the saga went on without.
func skippedIn(r journal.Record) (steps []string) {
	for _, e := range r.Entries {
		if e.Skipped {
			steps = append(steps, e.Step)
		}
	}
	slices.Sort(steps)
	return steps
}

// A step runs if its condition holds. Else it is skipped, as is what needs its output, but not what only waits for it.
func TestWhen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cents   int
		done    int // of the step, and of the one that needs it
		body    string
		skipped []string
	}{
		"it holds":    {100, 1, `{"Hold":"h","Charge":"c"}`, nil},
		"it does not": {10, 0, `{"Hold":"none","Charge":"c"}`, []string{"inventory.reserve", "shipping.weigh"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				s.services.Answer("inventory.reserve", `{"ID":"h"}`)
				s.services.Answer("payment.charge", `{"ID":"c"}`)
				s.services.Answer("shipping.book", `{"Track":"t-1"}`)
				d := forked(isDear)
				got, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), order{"a-1", tt.cents})
				require.NoError(s, err)
				require.Equal(s, receipt{"t-1"}, got)
				s.wantEffects("inventory.reserve", tt.done, 0)
				s.wantEffects("shipping.weigh", tt.done, 0)
				s.wantEffects("mail.ring", 1, 0)
				require.Equal(s, tt.skipped, skippedIn(s.read("k")))
				for _, d := range s.services.Deliveries() {
					if d.Step == "shipping.book" {
						require.JSONEq(s, tt.body, string(d.Body))
					}
				}
			})
		})
	}
}

// count is how often the call of a step arrived.
func count(s *stage, step string) (n int) {
	for _, d := range s.services.Deliveries() {
		if d.Step == step && !d.Undo {
			n++
		}
	}
	return n
}

// What was skipped is not undone.
func TestWhen_undo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := forked(isDear)
		s.services.Script("shipping.book", sagatest.Reject(409))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), order{"a-1", 10})
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("payment.charge", 1, 1)
		s.wantEffects("mail.ring", 1, 1)
		for _, d := range s.services.Deliveries() {
			require.NotContains(s, []string{"inventory.reserve", "shipping.weigh"}, d.Step)
		}
	})
}

// A condition after another step costs no write of its own: what is skipped or begins is in the write of that step.
func TestWhen_writes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		for _, cents := range []int{10, 100} {
			d := saga.MustDefine("short", 1, func(b *saga.Builder[order, nothing]) {
				paid := saga.Step(b, pay, b.Input()).Undo(refund)
				saga.Step(b, reserve, b.Input()).Undo(release).When(saga.Map2(b.Input(), paid.Output(), func(o order, _ charge) bool { return isDear(o) }))
			})
			j := tap(s.journal)
			_, err := d.Run(s.Context(), s.openOn(j, d), key(s.T, map[int]string{10: "cheap", 100: "dear"}[cents]), order{"a-1", cents})
			require.NoError(s, err)
			want := 2 // the charge, and the reservation with the end
			if !isDear(order{Cents: cents}) {
				want = 1
			}
			require.Equal(s, want, j.count("Append"))
		}
	})
}

// A step that may have begun is not skipped by a later owner, whose condition has another result.
func TestWhen_anotherResultLater(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(time.Minute), sagatest.Fault{})
		first, cut := severable(s.journal)
		d := forked(func(order) bool { return true })
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second) // it is being reserved
		cut.Store(true)
		later := forked(func(order) bool { return false })
		_, err = later.Run(s.Context(), s.open(later), key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Empty(s, skippedIn(s.read("k")))
		s.wantEffects("inventory.reserve", 1, 0)
		s.wantEffects("shipping.weigh", 1, 0)
	})
}

// A skip is for good: a later owner, whose condition has another result, does not run the step.
func TestWhen_skippedForGood(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("mail.ring", sagatest.Slow(time.Minute), sagatest.Fault{})
		first, cut := severable(s.journal)
		d := forked(func(order) bool { return false })
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		cut.Store(true)
		later := forked(func(order) bool { return true })
		_, err = later.Run(s.Context(), s.open(later), key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, []string{"inventory.reserve", "shipping.weigh"}, skippedIn(s.read("k")))
		s.wantEffects("inventory.reserve", 0, 0)
	})
}

// A condition that panics fails the step, as an input that panics does: nothing is sent, and the saga is undone.
func TestWhen_panics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := forked(func(order) bool { panic("never") })
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Equal(s, "inventory.reserve", failed.FailedStep)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorContains(s, err, "never")
		s.wantEffects("inventory.reserve", 0, 0)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// perk is a saga with an optional step before one that fails or not.
var perk = saga.MustDefine("perk", 1, func(b *saga.Builder[order, nothing]) {
	b.UndoBudget(undoBudget)
	held := saga.Step(b, reserve, b.Input()).Undo(release).Optional().Retry(saga.RetryPolicy{Attempts: 2})
	paid := saga.Step(b, pay, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Or(saga.Const(b, hold{"none"})), paid.Output(), func(h hold, c charge) booking {
		return booking{h.ID, c.ID}
	})).Pivot()
	saga.Step(b, notify, sent.Output()).Retriable()
})

// A saga goes on without an optional step that surely had no effect, and fails if it may have had one.
func TestOptional(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   sagatest.Fault
		want    error
		skipped []string
	}{
		"refused":       {sagatest.Reject(409), nil, []string{"inventory.reserve"}},
		"never sent":    {sagatest.NotSent(), nil, []string{"inventory.reserve"}},
		"unknown":       {sagatest.LoseAnswer(), saga.ErrCompensated, nil},
		"goes well":     {sagatest.Fault{}, nil, nil},
		"it is forever": {sagatest.Unavailable(), saga.ErrCompensated, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				s.services.Script("inventory.reserve", sagatest.Always(tt.fault))
				_, err := perk.Run(s.Context(), s.open(perk), key(s.T, "k"), basket)
				require.ErrorIs(s, err, tt.want)
				require.Equal(s, tt.skipped, skippedIn(s.read("k")))
				done, undone := s.effects("inventory.reserve")
				if tt.want != nil {
					require.Equal(s, done, undone)
				}
			})
		})
	}
}

// A Retry of a stuck saga tries nothing that was skipped.
func TestOptional_retry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Reject(409))
		s.services.Script("mail.receipt", sagatest.Reject(409))
		e := s.open(perk)
		_, err := perk.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		_, err = e.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		s.until("k", journal.Stuck) // its refusal is stored
		require.Equal(s, []string{"inventory.reserve"}, skippedIn(s.read("k")))
		require.Equal(s, 1, count(s, "inventory.reserve"))
	})
}

// A person's word that an optional step did not happen skips it.
func TestOptional_forceRejected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("late", 1, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(undoBudget)
			sent := saga.Step(b, book, saga.Map(b.Input(), func(order) booking { return booking{} })).Pivot()
			saga.Step(b, reserve, b.Input()).Undo(release).Retriable().Optional().After(sent)
		})
		s.services.Script("inventory.reserve", sagatest.Always(sagatest.LoseRequest()))
		e := s.open(d)
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		_, err = e.ForceRejected(s.Context(), s.id("k"), "inventory.reserve", someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, []string{"inventory.reserve"}, skippedIn(s.read("k")))
	})
}

// The plan says what can be skipped, also to those who do not have the definition.
func TestPlanSteps_skips(t *testing.T) {
	t.Parallel()
	for _, d := range []interface {
		Steps() []saga.StepInfo
		Plan() journal.PlanRecord
	}{forked(isDear), perk} {
		stored, err := saga.PlanSteps(d.Plan())
		require.NoError(t, err)
		for i, s := range d.Steps() {
			require.Equal(t, s.Optional, stored[i].Optional, s.Name)
			require.Equal(t, s.Conditional, stored[i].Conditional, s.Name)
		}
	}
	steps := forked(isDear).Steps()
	conditional := make([]string, 0, 2)
	for _, s := range steps {
		if s.Conditional {
			conditional = append(conditional, s.Name)
		}
	}
	require.Equal(t, []string{"inventory.reserve", "shipping.weigh"}, conditional)
	require.Contains(t, forked(isDear).Plan().Lines[1], " conditional ")
	require.Contains(t, perk.Plan().Lines[0], " optional ")
}

// Either branch of a fork gives the value: the other one is skipped.
func TestOr_eitherBranch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("inventory.reserve", `{"ID":"dear"}`)
		s.services.Answer("mail.ring", `{"ID":"cheap"}`)
		d := saga.MustDefine("either", 1, func(b *saga.Builder[order, hold]) {
			dear := saga.Step(b, reserve, b.Input()).Undo(release).When(saga.Map(b.Input(), isDear))
			cheap := saga.Step(b, ring, b.Input()).Undo(unring).When(saga.Map(b.Input(), func(o order) bool { return !isDear(o) }))
			saga.Return(b, dear.Or(cheap.Or(saga.Const(b, hold{}))))
		})
		e := s.open(d)
		for text, o := range map[string]order{"dear": {"a", 100}, "cheap": {"a", 1}} {
			got, err := d.Run(s.Context(), e, key(s.T, text), o)
			require.NoError(s, err)
			require.Equal(s, hold{text}, got)
		}
	})
}

// Define refuses what a saga that skips could not end with, and says what to do.
func TestDefine_skips(t *testing.T) {
	t.Parallel()
	always := func(order) bool { return true }
	for name, tt := range map[string]struct {
		build func(b *saga.Builder[order, hold])
		want  error
		text  string
	}{
		"a result that can be missing": {func(b *saga.Builder[order, hold]) {
			saga.Return(b, saga.Step(b, reserve, b.Input()).Undo(release).When(saga.Map(b.Input(), always)).Output())
		}, saga.ErrPlan, "Or"},
		"a result of an optional step": {func(b *saga.Builder[order, hold]) {
			saga.Return(b, saga.Step(b, reserve, b.Input()).Undo(release).Optional().Output())
		}, saga.ErrPlan, "Or"},
		"a pivot that can be skipped": {func(b *saga.Builder[order, hold]) {
			saga.Step(b, reserve, b.Input()).When(saga.Map(b.Input(), always)).Pivot()
			saga.Return(b, saga.Const(b, hold{}))
		}, saga.ErrPivot, "inventory.reserve"},
		"no undo of what can be skipped": {func(b *saga.Builder[order, hold]) {
			saga.Step(b, reserve, b.Input()).When(saga.Map(b.Input(), always))
			saga.Return(b, saga.Const(b, hold{}))
		}, saga.ErrMissingUndo, "inventory.reserve"},
		"a condition of nothing": {func(b *saga.Builder[order, hold]) {
			saga.Step(b, reserve, b.Input()).Undo(release).When(saga.Value[bool]{})
			saga.Return(b, saga.Const(b, hold{}))
		}, saga.ErrValue, "inventory.reserve"},
		"two conditions": {func(b *saga.Builder[order, hold]) {
			on := saga.Map(b.Input(), always)
			saga.Step(b, reserve, b.Input()).Undo(release).When(on).When(on)
			saga.Return(b, saga.Const(b, hold{}))
		}, saga.ErrPlan, "twice"},
		"another value of nothing": {func(b *saga.Builder[order, hold]) {
			saga.Return(b, saga.Step(b, reserve, b.Input()).Undo(release).Or(saga.Value[hold]{}))
		}, saga.ErrValue, "result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := saga.Define("d", 1, tt.build)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
		})
	}
}
