package sagatest

import (
	"testing"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

var (
	redeem  = contract.Post[order, made]("gift", "redeem", "/cards/redeem")
	restore = contract.Post[contract.Undo[order, made], nothing]("gift", "restore", "/cards/restore")
	stamp   = contract.Post[made, made]("gift", "stamp", "/cards/stamp")
	unstamp = contract.Post[contract.Undo[made, made], nothing]("gift", "unstamp", "/cards/unstamp")
)

// gifted is a saga with a step of that condition, a step that needs its output, an optional step, and one that needs
// neither to have run.
func gifted(hasCard func(order) bool) *saga.Definition[order, made] {
	const keep = 2 * saga.DefaultUndoBudget
	return saga.MustDefine("gifted", 1, func(b *saga.Builder[order, made]) {
		held := saga.Step(b, reserve, b.Input()).Undo(unhold).Retention(keep)
		gift := saga.Step(b, redeem, b.Input()).When(saga.Map2(b.Input(), held.Output(), func(o order, _ made) bool { return hasCard(o) })).
			Undo(restore).Retention(keep)
		saga.Step(b, stamp, gift.Output()).Undo(unstamp).Retention(keep)
		seen := saga.Step(b, look, b.Input()).Optional().Undo(unlook).Retention(keep)
		left := saga.Map2(gift.Or(saga.Const(b, made{"none"})), seen.Or(saga.Const(b, made{"unseen"})), both)
		sent := saga.Step(b, book, left).Undo(unbook).Retention(keep)
		saga.Return(b, sent.Output())
	})
}

func with(order) bool    { return true }
func without(order) bool { return false }

// Each run skips the same steps, whoever decides on them, and the rest is done or undone.
func TestExplore_skips(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]func(order) bool{"it runs": with, "it is skipped": without} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fewer := func(e *explorer) { e.every *= 3 } // it has five steps, and so twice as many scenarios as checkout
			Explore(t, gifted(has), order{"a-1"}, sampled, fewer, Answer("catalog.look", made{"l-1"}), Answer("gift.redeem", made{"g-1"}))
		})
	}
}

// flips makes the defect that the second process of a run has a condition with another result.
func flips(e *explorer) {
	processes := 0
	e.build = func(*sdk.Client) (saga.AnyDefinition, runFunc) {
		has := with
		if processes++; processes%2 == 0 {
			has = without
		}
		d := gifted(has)
		return d, runOf(d, order{"a-1"})
	}
}

// skipDefects are mistakes about steps that can be skipped.
var skipDefects = []planted{
	{"decides on a step anew that it did not write down before it began", "all goes well", func(e *explorer) {
		flips(e)
		writes(func(_ journal.Record, w *journal.Write) {
			drop(w, func(e journal.Entry) bool { return e.Step == "gift.redeem" && e.Pending })
		})(e)
	}},
	{"does not write down that it skips what was refused", "catalog.look is refused", writes(func(_ journal.Record, w *journal.Write) {
		drop(w, func(e journal.Entry) bool { return e.Skipped })
	})},
	{"forgets that a refused step was optional", "catalog.look is refused", writes(func(_ journal.Record, w *journal.Write) {
		for i := range w.Entries {
			w.Entries[i].Skipped = w.Entries[i].Skipped && w.Entries[i].Outcome == retry.NotSent
		}
	})},
	{"skips what may have had an effect", "catalog.look loses its answer", writes(func(_ journal.Record, w *journal.Write) {
		for i, entry := range w.Entries {
			if entry.Step == "catalog.look" && entry.Outcome == retry.Completed {
				w.Entries[i].Outcome, w.Entries[i].Result, w.Entries[i].Skipped = retry.NotSent, nil, true
			}
		}
	})},
}

func TestExplore_catchesSkipDefects(t *testing.T) {
	t.Parallel()
	answers := []Option{Answer("catalog.look", made{"l-1"}), Answer("gift.redeem", made{"g-1"})}
	for _, d := range skipDefects {
		t.Run(d.name, func(t *testing.T) {
			catch(t, d, func() *explorer { return newExplorer(gifted(with), order{"a-1"}, answers) })
		})
	}
	t.Run("does not write down which condition did not hold", func(t *testing.T) {
		d := planted{"does not write down which condition did not hold", "all goes well", writes(func(_ journal.Record, w *journal.Write) {
			drop(w, func(e journal.Entry) bool { return e.Skipped })
		})}
		catch(t, d, func() *explorer { return newExplorer(gifted(without), order{"a-1"}, answers) })
	})
}
