package saga_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

type cart struct{ Lines []order }

var (
	pick   = contract.Post[order, hold]("inventory", "pick", "/picks").UndoneBy(unpick)
	unpick = contract.Post[contract.Undo[order, hold], struct{}]("inventory", "unpick", "/picks/unpick")
	pack   = contract.Post[[]hold, hold]("shipping", "pack", "/packs")
	unpack = contract.Post[contract.Undo[[]hold, hold], struct{}]("shipping", "unpack", "/packs/unpack")
)

func linesOf(c cart) []order   { return c.Lines }
func nameOf(line order) string { return line.SKU }

func cartOf(skus ...string) (c cart) {
	for _, sku := range skus {
		c.Lines = append(c.Lines, order{SKU: sku})
	}
	return c
}

// picking is a saga that pays, picks each line that lines says, and packs the holds.
func picking(lines func(cart) []order, edit ...func(*saga.EachRef[order, hold])) *saga.Definition[cart, []hold] {
	return saga.MustDefine("picking", 1, func(b *saga.Builder[cart, []hold]) {
		b.UndoBudget(undoBudget)
		paid := saga.Step(b, pay, saga.Map(b.Input(), func(c cart) order { return order{Cents: len(c.Lines)} })).Undo(refund)
		picked := saga.Each(b, pick, saga.Map2(b.Input(), paid.Output(), func(c cart, _ charge) []order { return lines(c) }), nameOf)
		for _, e := range edit {
			e(picked)
		}
		saga.Step(b, pack, picked.Output()).Undo(unpack)
		saga.Return(b, picked.Output())
	})
}

// Each item is one call, with the key that the operation has for its name. The outputs are in the order of the items.
func TestEach(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("inventory.pick[tea]", `{"ID":"t"}`)
		s.services.Answer("inventory.pick[milk]", `{"ID":"m"}`)
		s.services.Script("inventory.pick[tea]", sagatest.Slow(time.Minute)) // it ends last
		d := picking(linesOf)
		got, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.NoError(s, err)
		require.Equal(s, []hold{{"t"}, {"m"}}, got)
		parent, err := childkey.Hop("", "saga/picking", key(s.T, "k"))
		require.NoError(s, err)
		for _, sku := range []string{"tea", "milk"} {
			s.wantEffects("inventory.pick["+sku+"]", 1, 0)
			want, err := childkey.Derive(parent, "inventory", "pick", sku)
			require.NoError(s, err)
			for _, d := range s.services.Deliveries() {
				if d.Step == "inventory.pick["+sku+"]" {
					require.Equal(s, want, d.Key)
				}
				if d.Step == "shipping.pack" {
					require.JSONEq(s, `[{"ID":"t"},{"ID":"m"}]`, string(d.Body))
				}
			}
		}
		require.JSONEq(s, `["tea","milk"]`, string(entryOf(s.read("k"), "inventory.pick[*]").Result))
	})
}

// The names are in the write of the steps before. Of an Each at the beginning they are one write.
func TestEach_writes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j := tap(s.journal)
		d := picking(linesOf)
		_, err := d.Run(s.Context(), s.openOn(j, d), key(s.T, "k"), cartOf("tea"))
		require.NoError(s, err)
		require.Equal(s, 3, j.count("Append"), "the charge with the names, the item, the end")
		first := saga.MustDefine("first", 1, func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf) })
		j = tap(s.journal)
		_, err = first.Run(s.Context(), s.openOn(j, first), key(s.T, "k"), cartOf("tea"))
		require.NoError(s, err)
		require.Equal(s, 2, j.count("Append"), "the names, the end")
	})
}

func manySKUs(n int) (skus []string) {
	for i := range n {
		skus = append(skus, fmt.Sprint("sku-", i))
	}
	return skus
}

// A list of any length up to Max is one of items.
func TestEach_lengths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, saga.DefaultMaxItems} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				skus := manySKUs(n)
				for _, sku := range skus {
					s.services.Answer("inventory.pick["+sku+"]", fmt.Sprintf(`{"ID":%q}`, sku))
				}
				d := picking(linesOf)
				got, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf(skus...))
				require.NoError(s, err)
				require.NotNil(s, got)
				require.Len(s, got, n)
				for i, h := range got {
					require.Equal(s, skus[i], h.ID)
				}
				require.Len(s, s.services.Deliveries(), n+2)
				for _, d := range s.services.Deliveries() {
					if d.Step == "shipping.pack" && n == 0 {
						require.JSONEq(s, `[]`, string(d.Body))
					}
				}
			})
		})
	}
}

// A list that is no list of items is refused with its reason, and no item is called.
func TestEach_refused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		skus []string
		max  int
		want string
	}{
		"more than Max":        {manySKUs(4), 3, "4 items, at most 3 (Max)"},
		"more than by default": {manySKUs(101), 0, "101 items, at most 100 (Max)"},
		"more than MaxSteps":   {manySKUs(254), 256, "254 items beside 3 steps, at most 256 (MaxSteps) in all"},
		"equal names":          {[]string{"tea", "milk", "tea"}, 0, `the name of item 3, "tea": there is another inventory.pick[tea]`},
		"an empty name":        {[]string{"tea", ""}, 0, `the name of item 2, "":`},
		"a long name":          {[]string{strings.Repeat("x", 257)}, 0, "257 bytes"},
		"a star":               {[]string{"*"}, 0, `the name of item 1, "*": there is another inventory.pick[*]`},
		"no UTF-8":             {[]string{"\xff"}, 0, "not UTF-8"},
		"a panic":              {[]string{"boom"}, 0, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				lines := func(cart) []order { // an input cannot have a name that is no UTF-8
					if tt.want == "boom" {
						panic("boom")
					}
					return cartOf(tt.skus...).Lines
				}
				d := picking(lines, func(e *saga.EachRef[order, hold]) {
					if tt.max > 0 {
						e.Max(tt.max)
					}
				})
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf())
				var failed *saga.Error
				require.ErrorAs(s, err, &failed)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, "inventory.pick[*]", failed.FailedStep)
				require.ErrorContains(s, err, tt.want)
				s.wantEffects("payment.charge", 1, 1)
				require.Len(s, s.services.Deliveries(), 2, "the charge and its undo")
			})
		})
	}
}

// A list that is wrong is refused as soon as it is known: before any call, if that is at the beginning.
func TestEach_refusedEarly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("late", 1, func(b *saga.Builder[cart, nothing]) {
			sent := saga.Step(b, pay, saga.Const(b, order{})).Pivot()
			saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf).Retriable().After(sent)
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "tea"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.Empty(s, s.services.Deliveries())
	})
}

// Past the pivot a list that is refused makes the saga stuck. A build that takes more goes on after a Retry.
func TestEach_refusedPastThePivot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		define := func(most int) *saga.Definition[cart, nothing] {
			return saga.MustDefine("late", 1, func(b *saga.Builder[cart, nothing]) {
				b.UndoBudget(undoBudget)
				sent := saga.Step(b, pay, saga.Const(b, order{})).Pivot()
				saga.Each(b, pick, saga.Map2(b.Input(), sent.Output(), func(c cart, _ charge) []order { return c.Lines }), nameOf).Retriable().Max(most)
			})
		}
		d := define(1)
		e := s.open(d)
		_, err := d.Run(s.Context(), e, key(s.T, "k"), cartOf("tea", "milk"))
		require.ErrorIs(s, err, saga.ErrStuck)
		require.ErrorContains(s, err, "2 items, at most 1 (Max)")
		require.NoError(s, e.Close(s.Context()))
		for _, force := range []func(*saga.Engine) error{
			func(e *saga.Engine) error {
				_, err := e.ForceOK(s.Context(), s.id("k"), "inventory.pick[*]", []string{"tea"}, someone)
				return err
			},
			func(e *saga.Engine) error {
				_, err := e.ForceRejected(s.Context(), s.id("k"), "inventory.pick[*]", someone)
				return err
			},
			func(e *saga.Engine) error {
				_, err := e.ForceUndone(s.Context(), s.id("k"), "inventory.pick[*]", someone)
				return err
			},
		} {
			require.ErrorContains(s, force(e), "makes no call")
		}
		d = define(2)
		e = s.open(d)
		_, err = e.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		s.until("k", journal.Completed)
		s.wantEffects("inventory.pick[tea]", 1, 0)
		s.wantEffects("inventory.pick[milk]", 1, 0)
	})
}

// Each item is undone by itself, after what ran behind it, and what it has in common with the others is undone last.
func TestEach_undo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.pack", sagatest.Always(sagatest.Forget(true)))
		d := picking(linesOf)
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		var undone []string
		for _, d := range s.services.Deliveries() {
			if d.Undo {
				undone = append(undone, d.Step)
			}
		}
		require.Len(s, undone, 4)
		require.Equal(s, "shipping.pack", undone[0])
		require.ElementsMatch(s, []string{"inventory.pick[tea]", "inventory.pick[milk]"}, undone[1:3])
		require.Equal(s, "payment.charge", undone[3])
		for _, step := range undone {
			s.wantEffects(step, 1, 1)
		}
	})
}

// If an item is refused, those beside it are found out and undone, and it is not.
func TestEach_itemRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.pick[tea]", sagatest.Slow(time.Minute))
		s.services.Script("inventory.pick[milk]", sagatest.Delay(time.Second, sagatest.Reject(409)))
		s.services.Script("inventory.pick[rice]", sagatest.LoseAnswer(), sagatest.Always(sagatest.Forget(true)))
		d := picking(linesOf)
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk", "rice"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Equal(s, "inventory.pick[milk]", failed.FailedStep)
		require.ErrorContains(s, err, "inventory.pick[milk]")
		s.wantEffects("inventory.pick[tea]", 1, 1)
		s.wantEffects("inventory.pick[milk]", 0, 0)
		s.wantEffects("inventory.pick[rice]", 1, 1)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// An item whose undo is refused stops neither the other items nor other branches. A person settles it, without the
// definition.
func TestEach_itemBlocked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.pack", sagatest.Reject(409))
		s.services.ScriptUndo("inventory.pick[milk]", sagatest.Reject(422))
		d := picking(linesOf)
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk", "rice"))
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.Equal(s, "inventory.pick[milk]", failed.StuckOn.Step)
		require.ElementsMatch(s, []string{"payment.charge", "inventory.pick[milk]"}, failed.Pending)
		require.ElementsMatch(s, []string{"inventory.pick[tea]", "inventory.pick[rice]"}, failed.Undone)
		s.wantEffects("inventory.pick[tea]", 1, 1)
		s.wantEffects("inventory.pick[rice]", 1, 1)
		s.wantEffects("payment.charge", 1, 0) // it stood before what is left
		o, err := saga.NewOperator(s.journal)
		require.NoError(s, err)
		_, err = o.ForceUndone(s.Context(), s.id("k"), "inventory.pick[bread]", someone)
		require.ErrorIs(s, err, saga.ErrNoStep)
		_, err = o.ForceUndone(s.Context(), s.id("k"), "inventory.pick[milk]", someone)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// Only items have undos, also where an owner that took the saga over writes down all that it knows.
func TestEach_takenOverAndStuck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.pack", sagatest.Reject(409))
		s.services.ScriptUndo("inventory.pick[milk]", sagatest.Always(sagatest.Reject(422)))
		d := picking(linesOf)
		first := dead(s.journal, func(method string, _ int) bool {
			return method == "Append" && s.read("k").Status == journal.Compensating
		})
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), cartOf("tea", "milk"))
		require.NoError(s, err)
		s.until("k", journal.Compensating)
		e := s.open(d)
		r := s.until("k", journal.Stuck)
		require.EqualValues(s, 2, r.Fence)
		for _, entry := range r.Entries {
			require.False(s, entry.Undo && entry.Step == "inventory.pick[*]", "%+v", entry)
		}
		_, err = e.ForceUndone(s.Context(), r.ID, "inventory.pick[milk]", someone)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
	})
}

// The items of an Each without an effect are not left behind.
func TestEach_readOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.pack", sagatest.Reject(409))
		d := picking(linesOf, func(e *saga.EachRef[order, hold]) { e.ReadOnly() })
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea"))
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Empty(s, failed.Pending)
		require.Equal(s, []string{"payment.charge"}, failed.Undone)
	})
}

// A later owner finds the same items in the journal, whatever became of them.
func TestEach_takenOver(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *sagatest.Services){
		"before any is called":    func(s *sagatest.Services) { s.Script("payment.charge", sagatest.Delay(time.Minute, sagatest.Pass())) },
		"some are done, some not": func(s *sagatest.Services) { s.Script("inventory.pick[tea]", sagatest.Slow(time.Minute)) },
		"one is unknown": func(s *sagatest.Services) {
			s.Script("inventory.pick[tea]", sagatest.LoseAnswer(), sagatest.LoseAnswer())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				prepare(s.services)
				first, cut := severable(s.journal)
				d := picking(linesOf)
				_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), cartOf("tea", "milk"))
				require.NoError(s, err)
				time.Sleep(time.Second)
				cut.Store(true)
				later := picking(linesOf, func(e *saga.EachRef[order, hold]) { e.Max(1) }) // it holds for lists that are not written
				if name == "before any is called" {
					later = picking(linesOf)
				}
				got, err := later.Run(s.Context(), s.open(later), key(s.T, "k"), cartOf("tea", "milk"))
				require.NoError(s, err)
				require.Len(s, got, 2)
				s.wantEffects("inventory.pick[tea]", 1, 0)
				s.wantEffects("inventory.pick[milk]", 1, 0)
			})
		})
	}
}

// A build whose functions name other items, or in another order, leaves the saga to others, in both directions.
func TestEach_anotherListLater(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(cart) []order{
		"other names":   func(cart) []order { return cartOf("tea", "rice").Lines },
		"another order": func(cart) []order { return cartOf("milk", "tea").Lines },
		"fewer":         func(cart) []order { return cartOf("tea").Lines },
		"a panic":       func(cart) []order { panic("no list") },
	} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", back: ", back), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(s *stage) {
					s.services.Script("inventory.pick[tea]", sagatest.Slow(time.Minute))
					first, cut := severable(s.journal)
					d := picking(linesOf)
					_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), cartOf("tea", "milk"))
					require.NoError(s, err)
					time.Sleep(time.Second)
					cut.Store(true)
					o, err := saga.NewOperator(s.journal)
					require.NoError(s, err)
					if back {
						_, err = o.Cancel(s.Context(), s.id("k"), someone)
						require.NoError(s, err)
					}
					before := len(s.services.Deliveries())
					s.open(picking(other))
					r := s.untilDeferred("k")
					require.Contains(s, r.Deferred.Detail, "items of inventory.pick[*]")
					require.Len(s, s.services.Deliveries(), before)
					s.open(d)
					if back {
						s.until("k", journal.Compensated)
						s.wantEffects("inventory.pick[tea]", 1, 1)
						s.wantEffects("inventory.pick[milk]", 1, 1)
						return
					}
					s.until("k", journal.Completed)
					s.wantEffects("inventory.pick[tea]", 1, 0)
				})
			})
		}
	}
}

// With functions that are not pure an item still gets no other item's input: it is not called. The saga is left to others.
func TestEach_impure(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var calls atomic.Int32
		d := picking(func(c cart) []order {
			if calls.Add(1) > 1 {
				return cartOf("milk", "rice").Lines
			}
			return c.Lines
		})
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.NoError(s, err)
		r := s.untilDeferred("k")
		require.Contains(s, entryOf(r, "inventory.pick[tea]").Detail, "inventory.pick[tea] is no item any more")
		require.Contains(s, r.Deferred.Detail, `item 1 is "milk" by this build's functions, and the journal has inventory.pick[tea]`)
		for _, d := range s.services.Deliveries() {
			require.NotEqual(s, "inventory.pick[tea]", d.Step)
			if d.Step == "inventory.pick[milk]" {
				require.JSONEq(s, `{"sku":"milk","cents":0}`, string(d.Body))
			}
		}
	})
}

// A Cancel while items run undoes those that took effect, or may have. What was not decided on yet does not begin.
func TestEach_cancelled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.pick[tea]", sagatest.Slow(time.Minute))
		s.services.Script("payment.charge", sagatest.Pass(), sagatest.Slow(time.Minute))
		d := picking(linesOf)
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), cartOf("tea", "milk"))
		require.NoError(s, err)
		time.Sleep(time.Second)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
		s.wantEffects("inventory.pick[tea]", 1, 1)
		s.wantEffects("inventory.pick[milk]", 1, 1)
		s.wantEffects("payment.charge", 1, 1)
		s.wantEffects("shipping.pack", 0, 0)

		_, err = d.Start(s.Context(), e, key(s.T, "early"), cartOf("late"))
		require.NoError(s, err)
		time.Sleep(time.Second)
		_, err = e.Cancel(s.Context(), s.id("early"), someone)
		require.NoError(s, err)
		s.until("early", journal.Compensated)
		s.wantEffects("inventory.pick[late]", 0, 0)
	})
}

// An Each can be skipped as a whole, and so is what needs it; and an Each can need the outputs of another.
func TestEach_skippedAndChained(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wanted bool
		packed int
		sent   string
	}{"it runs": {true, 2, `[{"ID":"p-a"},{"ID":"p-b"}]`}, "it is skipped": {false, 0, `[{"ID":"none"}]`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				weighs := contract.Post[hold, hold]("shipping", "weigh", "/weights")
				d := saga.MustDefine("chained", 1, func(b *saga.Builder[cart, []hold]) {
					wanted := saga.Map(b.Input(), func(cart) bool { return tt.wanted })
					lines := saga.Map(b.Input(), func(c cart) []order {
						if !tt.wanted {
							return make([]order, 200) // which would be refused
						}
						return c.Lines
					})
					paid := saga.Step(b, pay, saga.Const(b, order{})).Undo(refund)
					picked := saga.Each(b, pick, lines, nameOf).When(wanted).After(paid)
					weighed := saga.Each(b, weighs, picked.Output(), func(h hold) string { return h.ID }).ReadOnly()
					saga.Step(b, pack, weighed.Or(saga.Const(b, []hold{{"none"}}))).Undo(unpack)
					saga.Return(b, weighed.Or(saga.Const(b, []hold{{"none"}})))
				})
				for _, x := range []string{"a", "b"} {
					s.services.Answer("inventory.pick["+x+"]", fmt.Sprintf(`{"ID":"h-%s"}`, x))
					s.services.Answer("shipping.weigh[h-"+x+"]", fmt.Sprintf(`{"ID":"p-%s"}`, x))
				}
				got, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("a", "b"))
				require.NoError(s, err)
				require.Len(s, got, max(tt.packed, 1))
				for _, d := range s.services.Deliveries() {
					if d.Step == "shipping.pack" {
						require.JSONEq(s, tt.sent, string(d.Body))
					}
				}
				require.Len(s, s.services.Deliveries(), 2+2*tt.packed)
			})
		})
	}
}

// A saga that was cancelled before any engine had it makes no items.
func TestEach_cancelledAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("first", 1, func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf) })
		id := enqueue(s, d, "k", cartOf("tea"))
		o, err := saga.NewOperator(s.journal, d)
		require.NoError(s, err)
		_, err = o.Cancel(s.Context(), id, someone)
		require.NoError(s, err)
		s.open(d)
		require.Empty(s, s.until("k", journal.Compensated).Entries)
	})
}

// The result is not made of an item whose output is gone.
func TestEach_outputGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.pick[tea]", sagatest.LoseAnswer(), sagatest.Always(sagatest.Gone()))
		d := saga.MustDefine("gone", 1, func(b *saga.Builder[cart, []hold]) {
			saga.Return(b, saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf).Output())
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.ErrorIs(s, err, saga.ErrNoResult)
	})
}

// A saga sleeps behind an Each, also one without items.
func TestEach_thenSleep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("rests", 1, func(b *saga.Builder[cart, nothing]) {
			picked := saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf)
			rest := saga.Sleep(b, "cart.rests", saga.Const(b, time.Hour)).After(picked)
			saga.Each(b, pick.For("late"), saga.Map(b.Input(), linesOf), nameOf).After(rest)
		})
		e := s.open(d)
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "none"), cartOf())
		require.NoError(s, err)
		require.InDelta(s, time.Hour, time.Since(begun), float64(5*time.Minute))

		s.services.Script("inventory.pick[tea]", sagatest.Slow(4*time.Minute))
		begun = time.Now()
		_, err = d.Run(s.Context(), e, key(s.T, "one"), cartOf("tea"))
		require.NoError(s, err)
		require.Greater(s, time.Since(begun), 64*time.Minute)
	})
}

// The path of an item can have a value of its own, and one of the saga's. So has that of its undo.
func TestEach_paths(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		undo := contract.Delete[contract.Undo[order, hold], struct{}]("inventory", "drop", "/holds/{of}/lines/{sku}")
		op := contract.Put[order, hold]("inventory", "put", "/holds/{of}/lines/{sku}").UndoneBy(undo)
		d := saga.MustDefine("paths", 1, func(b *saga.Builder[cart, nothing]) {
			of := saga.Map(b.Input(), func(c cart) string { return fmt.Sprint("cart-", len(c.Lines)) })
			put := saga.Each(b, op, saga.Map(b.Input(), linesOf), nameOf).AtItem("sku", nameOf).At("of", of)
			saga.Step(b, pack, put.Output()).Undo(unpack)
		})
		s.services.Script("shipping.pack", sagatest.Reject(409))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		var paths []string
		for _, d := range s.services.Deliveries() {
			if d.Step != "shipping.pack" {
				require.Equal(s, "inventory.put["+d.Path[strings.LastIndex(d.Path, "/")+1:]+"]", d.Step)
				paths = append(paths, d.Path)
			}
		}
		require.ElementsMatch(s, slices.Repeat([]string{"/holds/cart-2/lines/tea", "/holds/cart-2/lines/milk"}, 2), paths)
	})
}

// A function is run once for each item, and undone so, under keys of their own.
func TestEachFunc(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		keys := make(chan childkey.Key, 4)
		d := saga.MustDefine("func", 1, func(b *saga.Builder[cart, nothing]) {
			done := saga.EachFunc(b, "local.note", saga.Map(b.Input(), linesOf), nameOf,
				func(_ context.Context, c saga.Call[order]) (string, error) { keys <- c.Key; return c.Input.SKU, nil }).
				UndoFunc("local.erase", func(_ context.Context, u saga.UndoCall[order, string]) error {
					if *u.Output != u.Input.SKU {
						return fmt.Errorf("the output of %s is %s", u.Input.SKU, *u.Output)
					}
					keys <- u.Forward
					return nil
				})
			saga.Step(b, pack, saga.Map(done.Output(), func([]string) []hold { return nil })).Undo(unpack)
		})
		s.services.Script("shipping.pack", sagatest.Reject(409))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), cartOf("tea", "milk"))
		require.ErrorIs(s, err, saga.ErrCompensated)
		close(keys)
		counts := make(map[childkey.Key]int)
		for k := range keys {
			counts[k]++
		}
		require.Len(s, counts, 2)
		for _, n := range counts {
			require.Equal(s, 2, n)
		}
	})
}

// People see the items in the place of the Each, with the plan alone too.
func TestEach_progress(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var picked *saga.EachRef[order, hold]
		d := picking(linesOf, func(e *saga.EachRef[order, hold]) { picked = e })
		s.services.Answer("inventory.pick[milk]", `{"ID":"m"}`)
		s.services.Script("payment.charge", sagatest.Slow(time.Minute))
		s.services.Script("inventory.pick[tea]", sagatest.Slow(3*time.Minute))
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), cartOf("tea", "milk"))
		require.NoError(s, err)
		states := func() (text []string) {
			s.Helper()
			steps, err := d.Progress(s.read("k"))
			require.NoError(s, err)
			for _, state := range steps {
				text = append(text, state.Name+" "+state.Status.String())
			}
			return text
		}
		time.Sleep(time.Second)
		require.Equal(s, []string{"payment.charge running", "inventory.pick[*] waiting", "shipping.pack waiting"}, states())
		time.Sleep(2 * time.Minute)
		require.Equal(s, []string{"payment.charge completed", "inventory.pick[tea] running", "inventory.pick[milk] completed", "shipping.pack waiting"}, states())
		_, done, err := picked.ReadOutput(s.read("k"))
		require.NoError(s, err)
		require.False(s, done)

		s.until("k", journal.Completed)
		out, done, err := picked.ReadOutput(s.read("k"))
		require.NoError(s, err)
		require.True(s, done)
		require.Equal(s, []hold{{}, {"m"}}, out)
		require.Equal(s, "inventory.pick[milk] completed", states()[2])

		shown, err := e.Reader().Show(s.Context(), s.id("k"))
		require.NoError(s, err)
		infos, err := saga.RecordSteps(d.Plan(), shown)
		require.NoError(s, err)
		names := make(map[string]saga.StepInfo)
		for _, info := range infos {
			names[info.Name] = info
		}
		require.Len(s, infos, 5)
		require.True(s, names["inventory.pick[*]"].Each)
		require.Equal(s, "inventory.pick[*]", names["inventory.pick[tea]"].Of)
		require.Equal(s, "inventory.unpick[tea]", names["inventory.pick[tea]"].Undo)
		require.ElementsMatch(s, []string{"inventory.pick[*]", "inventory.pick[tea]", "inventory.pick[milk]"}, names["shipping.pack"].After)
	})
}

// Define refuses what cannot be an Each.
func TestEach_define(t *testing.T) {
	t.Parallel()
	lines := func(b *saga.Builder[cart, nothing]) saga.Value[[]order] { return saga.Map(b.Input(), linesOf) }
	bare := contract.Post[order, hold]("inventory", "pick", "/picks")
	for name, tt := range map[string]struct {
		build func(b *saga.Builder[cart, nothing])
		is    error
		want  string
	}{
		"no undo": {func(b *saga.Builder[cart, nothing]) { saga.Each(b, bare, lines(b), nameOf) }, saga.ErrMissingUndo, "one of its items can fail after another"},
		"no undo, the last of several": {func(b *saga.Builder[cart, nothing]) {
			saga.Each(b, bare, lines(b), nameOf).After(saga.Step(b, pay, saga.Const(b, order{})).Undo(refund))
		}, saga.ErrMissingUndo, "inventory.pick[*]"},
		"twice": {func(b *saga.Builder[cart, nothing]) {
			saga.Each(b, pick, lines(b), nameOf)
			saga.Each(b, pick, lines(b), nameOf)
		}, saga.ErrDuplicateStep, "inventory.pick[*]"},
		"no function": {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, lines(b), nil) }, saga.ErrPlan, "the function that names the items is nil"},
		"no value":    {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, saga.Value[[]order]{}, nameOf) }, saga.ErrValue, "inventory.pick[*]"},
		"Max of none": {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, lines(b), nameOf).Max(0) }, saga.ErrPlan, "Max: 0 is not positive"},
		"Max beyond":  {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, lines(b), nameOf).Max(257) }, saga.ErrPlan, "257 is more than MaxSteps"},
		"a constant": {func(b *saga.Builder[cart, nothing]) {
			saga.Each(b, pick, saga.Const(b, cartOf("a", "a").Lines), nameOf)
		}, saga.ErrPlan, `there is another inventory.pick[a]`},
		"a step's name": {func(b *saga.Builder[cart, nothing]) {
			saga.Step(b, pick.For("a"), saga.Const(b, order{}))
			saga.Each(b, pick, saga.Const(b, cartOf("a").Lines), nameOf)
		}, saga.ErrPlan, `there is another inventory.pick[a]`},
		"no wildcard":    {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, lines(b), nameOf).AtItem("sku", nameOf) }, saga.ErrPlan, "sku"},
		"a nil wildcard": {func(b *saga.Builder[cart, nothing]) { saga.Each(b, pick, lines(b), nameOf).AtItem("sku", nil) }, saga.ErrPlan, "the function for {sku} is nil"},
		"At a function": {func(b *saga.Builder[cart, nothing]) {
			saga.EachFunc(b, "a.b", lines(b), nameOf, func(context.Context, saga.Call[order]) (hold, error) { return hold{}, nil }).ReadOnly().AtItem("sku", nameOf)
		}, saga.ErrPlan, "the step is no operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := saga.Define("bad", 1, tt.build)
			require.ErrorIs(t, err, tt.is)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// The undo of an operation may have discriminators of its own: each item has an undo with its name behind them.
func TestEach_planLine(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("lines", 1, func(b *saga.Builder[cart, nothing]) {
		saga.Each(b, pick.For("x"), saga.Map(b.Input(), linesOf), nameOf).Undo(unpick.For("y"))
		saga.Each(b, pick, saga.Map(b.Input(), linesOf), nameOf)
	})
	require.Equal(t, []string{
		"inventory.pick[x,*] POST /picks each undo inventory.unpick[y,*] POST /picks/unpick",
		"inventory.pick[*] POST /picks each undo inventory.unpick[*] POST /picks/unpick",
	}, d.Plan().Lines)
	steps, err := saga.PlanSteps(d.Plan())
	require.NoError(t, err)
	require.True(t, steps[0].Each && steps[1].Each)
}
