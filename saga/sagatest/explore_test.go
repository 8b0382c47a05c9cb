package sagatest

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

type (
	order   struct{ SKU string }
	made    struct{ ID string }
	booking struct{ Hold, Charge string }
	nothing = struct{}
)

var (
	reserve = contract.Post[order, made]("inventory", "reserve", "/reservations")
	unhold  = contract.Post[contract.Undo[order, made], nothing]("inventory", "release", "/reservations/release")
	charge  = contract.Post[order, made]("payment", "charge", "/charges")
	refund  = contract.Post[contract.Undo[order, made], nothing]("payment", "refund", "/charges/refund")
	book    = contract.Post[booking, made]("shipping", "book", "/parcels")
	unbook  = contract.Post[contract.Undo[booking, made], nothing]("shipping", "unbook", "/parcels/unbook")
	look    = contract.Post[order, made]("catalog", "look", "/prices")
	unlook  = contract.Post[contract.Undo[order, made], nothing]("catalog", "unlook", "/prices/unlook")
	notify  = contract.Post[made, nothing]("mail", "receipt", "/receipts")

	// chargeFor has the ID of the reservation in its path, and so has its undo.
	chargeFor = contract.Post[order, made]("payment", "charge", "/holds/{hold}/charges").UndoneBy(refundFor)
	refundFor = contract.Post[contract.Undo[order, made], nothing]("payment", "refund", "/holds/{hold}/refunds")
)

func both(h, c made) booking { return booking{h.ID, c.ID} }

// checkout has two parallel steps, a pivot, and a retriable step.
var checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[order, made]) {
	held := saga.Step(b, reserve, b.Input()).Undo(unhold)
	paid := saga.Step(b, charge, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Pivot()
	saga.Step(b, notify, sent.Output()).Retriable()
	saga.Return(b, sent.Output())
})

// line has three steps in sequence that can all be undone.
func line() *saga.Definition[order, nothing] {
	return saga.MustDefine("line", 1, func(b *saga.Builder[order, nothing]) {
		const keep = 2 * saga.DefaultUndoBudget
		held := saga.Step(b, reserve, b.Input()).Undo(unhold).Retention(keep)
		hold := saga.Map(held.Output(), func(m made) string { return "hold-" + m.ID })
		paid := saga.Step(b, chargeFor, b.Input()).At("hold", hold).Retention(keep)
		saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Undo(unbook).Retention(keep)
	})
}

var everyScenario = flag.Bool("every-scenario", false, "play all scenarios of every saga, also with the race detector")

// sampled plays only some scenarios, other ones each time, unless the flag is set. The race detector makes Explore ten
// times as slow.
func sampled(e *explorer) {
	switch {
	case *everyScenario:
	case raced:
		e.every = 5
	default:
		e.every = 3
	}
}

// Each disturbance is played at each point, with requests delivered once and twice. The test
// counts runs instead of time, so that it passes on a busy machine.
func TestExplore(t *testing.T) {
	t.Parallel()
	type combination struct {
		disturbance
		point int
		twice bool
	}
	played := make(map[string]map[combination]bool)
	e := newExplorer(checkout, order{"a-1"}, []Option{Answer("shipping.book", made{"p-1"})})
	if raced {
		sampled(e)
	}
	late := make(map[string]bool) // that play a day and a week
	e.played = func(s scenario) {
		late[s.name] = s.retried > 0
		if played[s.name] == nil {
			played[s.name] = make(map[combination]bool)
		}
		played[s.name][combination{s.disturbance, s.point, s.twice}] = true
	}
	e.test(t)
	for name, all := range played {
		points := 0
		for c := range all {
			points = max(points, c.point)
			require.True(t, all[combination{c.disturbance, c.point, !c.twice}], "%s: %+v is played in one way only", name, c)
		}
		least := 6
		if late[name] {
			least = 2
		}
		require.GreaterOrEqual(t, points, least, name)
		for point := range points {
			require.True(t, all[combination{kill, point + 1, true}], "%s: killed at %d", name, point+1)
		}
	}
	if e.every == 0 { // scenarios have from one run to thousands, so a sample of them says nothing
		require.Less(t, e.runs, 16_000, "of about a millisecond of one processor: less than ten seconds on two")
	}
}

func TestExplore_line(t *testing.T) {
	t.Parallel()
	Explore(t, line(), order{"a-1"}, sampled)
}

// Undos keep their order across a step without an undo.
func TestExplore_across(t *testing.T) {
	t.Parallel()
	Explore(t, across(true), order{"a-1"}, sampled)
}

// marked is a saga with a step of that mark before its pivot.
func marked(mark string) *saga.Definition[order, nothing] {
	const keep = 4 * saga.DefaultUndoBudget
	return saga.MustDefine(mark, 1, func(b *saga.Builder[order, nothing]) {
		var first *saga.StepRef[order, made]
		switch mark {
		case "read-only":
			first = saga.Step(b, look, b.Input()).ReadOnly()
		case "irreversible":
			first = saga.Step(b, look, b.Input()).Irreversible()
		case "retriable":
			first = saga.Step(b, look, b.Input()).Undo(unlook).Retriable()
		}
		first.Retention(keep)
		paid := saga.Step(b, charge, saga.Map2(b.Input(), first.Output(), func(o order, _ made) order { return o })).Undo(refund).Retention(keep)
		saga.Step(b, book, saga.Map2(first.Output(), paid.Output(), both)).Pivot().Retention(keep)
	})
}

// A step of each mark comes before a step that can fail. Its callee can be down, refuse the call,
// and lose track of it.
func TestExplore_marks(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"read-only", "irreversible", "retriable"} {
		t.Run(mark, func(t *testing.T) {
			t.Parallel()
			Explore(t, marked(mark), order{"a-1"}, sampled)
		})
	}
}

// One step takes longer than its timeout, and one step is a function.
func TestExplore_timeoutsAndFunctions(t *testing.T) {
	t.Parallel()
	Explore(t, saga.MustDefine("short", 1, func(b *saga.Builder[order, nothing]) {
		held := saga.Step(b, reserve, b.Input()).Undo(unhold).Timeout(2 * time.Second).AttemptTimeout(time.Second)
		saga.StepFunc(b, "local.log", held.Output(), func(context.Context, saga.Call[made]) (nothing, error) { return nothing{}, nil }).ReadOnly()
	}), order{"a-1"}, sampled)
}

// A process that is killed leaves the steps that have a Timeout their time.
func TestExplore_timeoutBeforeThePivot(t *testing.T) {
	t.Parallel()
	Explore(t, saga.MustDefine("quick", 1, func(b *saga.Builder[order, nothing]) {
		held := saga.Step(b, reserve, b.Input()).Undo(unhold).Timeout(time.Minute)
		sent := saga.Step(b, book, saga.Map(held.Output(), func(h made) booking { return booking{Hold: h.ID} })).Pivot()
		saga.Step(b, notify, sent.Output()).Retriable()
	}), order{"a-1"}, sampled)
}

// A saga may have a Timeout as a whole.
func TestExplore_timeoutOfTheSaga(t *testing.T) {
	t.Parallel()
	Explore(t, saga.MustDefine("timed", 1, func(b *saga.Builder[order, nothing]) {
		b.Timeout(10 * time.Minute)
		look := saga.Step(b, look, b.Input()).Undo(unlook).Retriable()
		saga.Step(b, book, saga.Map(look.Output(), func(made) booking { return booking{} })).Pivot()
	}), order{"a-1"}, sampled)
}

// trip is a saga whose first step is a function that makes two calls in turn, and returns
// the error of either as it is. Its undo undoes both.
func trip(client *sdk.Client) *saga.Definition[order, made] { return tripBy(client, false, asItIs) }

// detour is trip, but a run of its function that may not be the first makes the second call only.
func detour(client *sdk.Client) *saga.Definition[order, made] { return tripBy(client, true, asItIs) }

func asItIs(err error) error { return err }

// tripBy is trip; in a run that may not be the first, says makes its error from that of the second call.
func tripBy(client *sdk.Client, detours bool, says func(error) error) *saga.Definition[order, made] {
	return saga.MustDefine("trip", 1, func(b *saga.Builder[order, made]) {
		both := saga.StepFunc(b, "trip.both", b.Input(), func(ctx context.Context, c saga.Call[order]) (booking, error) {
			var h made
			if !detours || !c.Resumed {
				var err error
				if h, err = sdk.Call(ctx, client, reserve, c.Input); err != nil {
					return booking{}, err
				}
			}
			p, err := sdk.Call(ctx, client, charge, c.Input)
			if c.Resumed {
				err = says(err)
			}
			return booking{h.ID, p.ID}, err
		}).UndoFunc("trip.undo", func(ctx context.Context, u saga.UndoCall[order, booking]) error {
			ctx = childkey.NewContext(ctx, u.Forward) // the parent key of the calls to undo
			in := contract.Undo[order, made]{Input: u.Input}
			if err := sdk.CallUndo(ctx, client, charge.UndoneBy(refund), in); err != nil {
				return err
			}
			return sdk.CallUndo(ctx, client, reserve.UndoneBy(unhold), in)
		})
		look := saga.StepFunc(b, "local.look", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil }).
			ReadOnly().After(both)
		sent := saga.Step(b, book, both.Output()).Pivot().After(look)
		saga.Step(b, notify, sent.Output()).Retriable()
		saga.Return(b, sent.Output())
	})
}

// A function that makes several calls has all its effects undone in a saga that is compensated.
func TestExplore_functionsThatCall(t *testing.T) {
	t.Parallel()
	ExploreCalls(t, []string{"inventory", "payment"}, trip, order{"a-1"}, sampled)
}

// A function may take another path in a later run: what an earlier run did is undone all the same.
func TestExplore_functionsThatDetour(t *testing.T) {
	t.Parallel()
	ExploreCalls(t, []string{"inventory", "payment"}, detour, order{"a-1"}, sampled)
}

// hanging is a saga with a function that ignores its ctx, and does not return while the saga lives. Its attempts may
// take so long.
func hanging(attempt time.Duration) *saga.Definition[order, nothing] {
	return saga.MustDefine("hanging", 1, func(b *saga.Builder[order, nothing]) {
		held := saga.Step(b, reserve, b.Input()).Undo(unhold)
		hang := saga.StepFunc(b, "local.hang", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			time.Sleep(patience + time.Hour)
			return nothing{}, nil
		}).ReadOnly().AttemptTimeout(attempt).After(held)
		saga.Step(b, book, saga.Map(b.Input(), func(order) booking { return booking{} })).Pivot().After(hang)
	})
}

// A saga ends, whatever its functions do.
func TestExplore_functionsThatHang(t *testing.T) {
	t.Parallel()
	Explore(t, hanging(time.Minute), order{"a-1"}, sampled)
}

func TestExplore_badOptions(t *testing.T) {
	t.Parallel()
	e := newExplorer(checkout, order{}, []Option{Answer("no.such", 1), Answer("shipping.book", func() {})})
	found := e.explore(t)
	require.Len(t, found, 2)
	require.Contains(t, found[0], "no such step")
}
