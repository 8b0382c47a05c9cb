package saga_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
)

// The operations of the tests' shop.
type (
	order struct {
		SKU   string `json:"sku"`
		Cents int    `json:"cents"`
	}
	hold    struct{ ID string }
	charge  struct{ ID string }
	booking struct {
		Hold, Charge string
	}
	parcel  struct{ Track string }
	receipt struct{ Track string }
	undone  struct{ Undone bool }
)

var (
	reserve = contract.Post[order, hold]("inventory", "reserve", "/reservations")
	release = contract.Post[contract.Undo[order, hold], undone]("inventory", "release", "/reservations/release")
	pay     = contract.Post[order, charge]("payment", "charge", "/charges")
	refund  = contract.Post[contract.Undo[order, charge], struct{}]("payment", "refund", "/charges/refund")
	book    = contract.Post[booking, parcel]("shipping", "book", "/parcels")
	notify  = contract.Post[parcel, struct{}]("mail", "receipt", "/receipts")
)

// undoBudget is short, since an engine in a bubble beats and polls all the time.
const undoBudget = 2 * time.Hour

func shop(b *saga.Builder[order, receipt]) {
	b.UndoBudget(undoBudget)
	held := saga.Step(b, reserve, b.Input()).Undo(release)
	paid := saga.Step(b, pay, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), func(h hold, c charge) booking {
		return booking{h.ID, c.ID}
	})).Pivot()
	saga.Step(b, notify, sent.Output()).Retriable()
	saga.Return(b, saga.Map(sent.Output(), func(p parcel) receipt { return receipt(p) }))
}

var checkout = saga.MustDefine("checkout", 1, shop)

// nothing are the saga's types where a test is about its steps.
type nothing = struct{}

func step(b *saga.Builder[order, nothing], name string) *saga.StepRef[order, nothing] {
	return saga.StepFunc(b, name, b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil })
}

func undo(context.Context, saga.UndoCall[order, nothing]) error { return nil }

func TestDefine_refuses(t *testing.T) {
	t.Parallel()
	var foreign saga.Value[order]
	var stranger saga.AnyStep
	saga.MustDefine("other", 1, func(b *saga.Builder[order, nothing]) {
		foreign = b.Input()
		stranger = step(b, "a.a")
	})
	tests := []struct {
		name  string
		build func(b *saga.Builder[order, nothing])
		want  error
		text  string // names the steps
	}{
		{"no steps", func(*saga.Builder[order, nothing]) {}, saga.ErrPlan, "no steps"},
		{"a step twice", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").ReadOnly()
			step(b, "a.a").ReadOnly()
		}, saga.ErrDuplicateStep, "a.a is there twice"},
		{"an undo with a step's name", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").UndoFunc("b.b", undo)
			step(b, "b.b").ReadOnly()
		}, saga.ErrDuplicateStep, "b.b is there twice"},
		{"an undo under its step's own key", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").UndoFunc("a.a", undo)
		}, saga.ErrDuplicateStep, "a.a is there twice"},
		{"a cycle", func(b *saga.Builder[order, nothing]) {
			a, c := step(b, "a.a").ReadOnly(), step(b, "c.c").ReadOnly()
			a.After(step(b, "b.b").ReadOnly().After(c))
			c.After(a)
		}, saga.ErrCycle, "a.a after b.b after c.c after a.a"},
		{"after itself", func(b *saga.Builder[order, nothing]) {
			a := step(b, "a.a").ReadOnly()
			a.After(a)
		}, saga.ErrCycle, "a.a after a.a"},
		{"another saga's value", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "a.a", foreign, func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil })
		}, saga.ErrValue, "a.a"},
		{"a step that is a nil pointer", func(b *saga.Builder[order, nothing]) { step(b, "a.a").After((*saga.StepRef[order, nothing])(nil)) }, saga.ErrValue, "a.a"},
		{"another saga's step", func(b *saga.Builder[order, nothing]) { step(b, "a.a").After(stranger) }, saga.ErrValue, "a.a"},
		{"values of two sagas", func(b *saga.Builder[order, nothing]) {
			in := saga.Map2(b.Input(), foreign, func(o, _ order) order { return o })
			saga.Step(b, reserve, in).ReadOnly()
		}, saga.ErrValue, "inventory.reserve"},
		{"the zero value", func(b *saga.Builder[order, nothing]) { saga.Step(b, reserve, saga.Value[order]{}) }, saga.ErrValue, "inventory.reserve"},
		{"a nil Map", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, reserve, saga.Map[order, order](b.Input(), nil))
		}, saga.ErrValue, "inventory.reserve"},
		{"a nil function", func(b *saga.Builder[order, nothing]) {
			saga.StepFunc[order, nothing, order, nothing](b, "a.a", b.Input(), nil)
		}, saga.ErrPlan, "step a.a: the function is nil"},
		{"a nil undo", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Undo(nil) }, saga.ErrPlan, "step a.a: the undo is nil"},
		{"a nil undo function", func(b *saga.Builder[order, nothing]) { step(b, "a.a").UndoFunc("a.b", nil) }, saga.ErrPlan, "step a.a"},
		{"two undos", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").UndoFunc("a.b", undo).UndoFunc("a.c", undo)
		}, saga.ErrPlan, "step a.a: there are two undos"},
		{"two undos beside that of the operation", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, take, b.Input()).Undo(take.Undo()).Undo(take.Undo())
		}, saga.ErrPlan, "there are two undos"},
		{"a path without its value", func(b *saga.Builder[order, nothing]) { saga.Step(b, captureID, b.Input()) }, saga.ErrPlan, "{id} is not set"},
		{"an undo's path without its value", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, captureID, b.Input()).At("id", skuOf(b)).Undo(contract.Post[contract.Undo[order, hold], struct{}]("payment", "void", "/voids/{void}"))
		}, saga.ErrPlan, "{void} is neither set"},
		{"a value for no wildcard", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, captureID, b.Input()).At("id", skuOf(b)).At("charge", skuOf(b)).ReadOnly()
		}, saga.ErrPlan, "has no {charge}"},
		{"two values for a wildcard", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, captureID.At("id", "1"), b.Input()).At("id", skuOf(b)).ReadOnly()
		}, saga.ErrPlan, "{id} is set already"},
		{"another saga's value in a path", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, captureID, b.Input()).At("id", saga.Map(foreign, func(o order) string { return o.SKU })).ReadOnly()
		}, saga.ErrValue, "payment.capture"},
		{"no value in a path", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, captureID, b.Input()).At("id", saga.Value[string]{}).ReadOnly()
		}, saga.ErrValue, "{id}"},
		{"a function with a path", func(b *saga.Builder[order, nothing]) { step(b, "a.a").At("id", skuOf(b)).ReadOnly() }, saga.ErrPlan, "At: the step is no operation, or an invalid one"},
		{"a name without a service", func(b *saga.Builder[order, nothing]) { step(b, "charge") }, saga.ErrPlan, `"charge": the name must be service.operation`},
		{"a name that is none", func(b *saga.Builder[order, nothing]) { step(b, "pay ment.charge") }, saga.ErrPlan, "the name must be service.operation"},
		{"an invalid operation", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, contract.Post[order, hold]("inventory", "reserve", "no-slash"), b.Input())
		}, contract.ErrInvalid, "inventory reserve"},
		{"an operation with an open wildcard", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, contract.Post[order, hold]("inventory", "reserve", "/r/{id}"), b.Input())
		}, contract.ErrInvalid, "{id} is not set"},
		{"another service's undo", func(b *saga.Builder[order, nothing]) {
			saga.Step(b, reserve, b.Input()).Undo(contract.Post[contract.Undo[order, hold], nothing]("payment", "release", "/r"))
		}, saga.ErrPlan, "inventory.reserve: payment.release cannot undo it"},
		{"no undo before what can fail", func(b *saga.Builder[order, nothing]) {
			step(b, "b.b").UndoFunc("b.undo", undo).After(step(b, "a.a"))
		}, saga.ErrMissingUndo, "step a.a has no undo, and b.b can fail after it"},
		{"no undo beside what can fail", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a")
			step(b, "b.b")
		}, saga.ErrMissingUndo, "step b.b has no undo, and a.a can fail after it"},
		{"retriable without an undo before what can fail", func(b *saga.Builder[order, nothing]) {
			step(b, "b.b").UndoFunc("b.undo", undo).After(step(b, "a.a").Retriable())
		}, saga.ErrMissingUndo, "step a.a has no undo, and b.b can fail after it"},
		{"two pivots", func(b *saga.Builder[order, nothing]) {
			a := step(b, "a.a").Pivot()
			step(b, "b.b").Pivot().After(a)
		}, saga.ErrPivot, "step b.b, pivot a.a: there are two pivots"},
		{"two pivots beside each other", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Pivot()
			step(b, "b.b").Pivot()
		}, saga.ErrPivot, "step b.b, pivot a.a: there are two pivots"},
		{"two pivots on branches of one step", func(b *saga.Builder[order, nothing]) {
			first := step(b, "a.a").UndoFunc("a.undo", undo)
			step(b, "b.b").Pivot().After(first)
			step(b, "c.c").Pivot().After(first)
		}, saga.ErrPivot, "step c.c, pivot b.b: there are two pivots"},
		{"beside the pivot", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Pivot()
			step(b, "b.b").UndoFunc("b.undo", undo)
		}, saga.ErrPivot, "step b.b, pivot a.a: it runs beside the pivot"},
		{"fallible after the pivot", func(b *saga.Builder[order, nothing]) {
			step(b, "b.b").UndoFunc("b.undo", undo).After(step(b, "a.a").Pivot())
		}, saga.ErrPivot, "step b.b, pivot a.a: it runs after the pivot and is not Retriable"},
		{"a pivot with an undo", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Pivot().UndoFunc("a.b", undo) }, saga.ErrPlan, "step a.a: the pivot has an undo"},
		{"a retriable pivot", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Pivot().Retriable() }, saga.ErrPlan, "step a.a: the pivot is also"},
		{"an undo of what is read", func(b *saga.Builder[order, nothing]) { step(b, "a.a").ReadOnly().UndoFunc("a.b", undo) }, saga.ErrPlan, "step a.a: a ReadOnly step"},
		{"an undo of what stays", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Irreversible().UndoFunc("a.b", undo) }, saga.ErrPlan, "step a.a: an Irreversible step"},
		{"a retention that is too short", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").UndoFunc("a.undo", undo).Retention(24 * time.Hour)
		}, saga.ErrRetention, "step a.a: its callee remembers keys for 24h0m0s, but they can be sent for 24h18m31s"},
		{"a retention that is shorter than the attempts", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retention(2 * time.Minute).AttemptTimeout(time.Minute).Retry(saga.RetryPolicy{Attempts: 2})
		}, saga.ErrRetention, "can be sent for 2m1s"},
		{"a retention that is shorter than the step's time", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retention(time.Hour).Timeout(2 * time.Hour)
		}, saga.ErrRetention, "can be sent for 2h0m0s"},
		{"a retention that is shorter than a retriable step's time", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retriable().Retention(time.Hour)
		}, saga.ErrRetention, "can be sent for 24h0m0s"},
		{"negative attempts", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Retry(saga.RetryPolicy{Attempts: -1}) }, saga.ErrPlan, "step a.a: Retry.Attempts: -1 is negative"},
		{"a negative backoff", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: -1}})
		}, saga.ErrPlan, "step a.a: Retry.Backoff.Base: -1ns is negative"},
		{"a cap below the base", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: 2, Cap: 1}})
		}, saga.ErrPlan, "step a.a: Retry.Backoff.Cap: 1ns is less than Base 2ns"},
		{"a jitter that is no number", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retry(saga.RetryPolicy{Backoff: retry.Backoff{Jitter: math.NaN()}})
		}, saga.ErrPlan, "step a.a: Retry.Backoff.Jitter: NaN is not in 0 to 1"},
		{"a wait of centuries", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retry(saga.RetryPolicy{Backoff: retry.Backoff{Cap: saga.MaxDuration + 1}})
		}, saga.ErrPlan, "step a.a: Retry.Backoff.Cap: 876000h0m0.000000001s is more than MaxDuration"},
		{"a budget of centuries", func(b *saga.Builder[order, nothing]) { step(b, "a.a"); b.UndoBudget(saga.MaxDuration + 1) }, saga.ErrPlan, "UndoBudget: 876000h0m0.000000001s is more than MaxDuration"},
		{"a timeout of centuries", func(b *saga.Builder[order, nothing]) { step(b, "a.a"); b.Timeout(math.MaxInt64) }, saga.ErrPlan, "Timeout: 2562047h47m16.854775807s is more than MaxDuration"},
		{"no timeout", func(b *saga.Builder[order, nothing]) { step(b, "a.a"); b.Timeout(0) }, saga.ErrPlan, "Timeout: 0s is not positive"},
		{"a negative budget", func(b *saga.Builder[order, nothing]) { step(b, "a.a"); b.UndoBudget(-1) }, saga.ErrPlan, "UndoBudget: -1ns"},
		{"no parallel", func(b *saga.Builder[order, nothing]) { step(b, "a.a"); b.MaxParallel(0) }, saga.ErrPlan, "MaxParallel: 0"},
		{"a step without time", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Timeout(-1) }, saga.ErrPlan, "step a.a: Timeout: -1ns"},
		{"a try without time", func(b *saga.Builder[order, nothing]) { step(b, "a.a").AttemptTimeout(0) }, saga.ErrPlan, "step a.a: AttemptTimeout: 0s"},
		{"a retention of nothing", func(b *saga.Builder[order, nothing]) { step(b, "a.a").Retention(0) }, saga.ErrPlan, "step a.a: Retention: 0s"},
		{"too many steps", func(b *saga.Builder[order, nothing]) {
			for i := range saga.MaxSteps + 1 {
				saga.Step(b, reserve.For(strings.Repeat("x", i%255+1), "y"), b.Input()).ReadOnly()
			}
		}, saga.ErrPlan, "257 steps, at most 256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := saga.Define("name", 1, tt.build)
			require.Nil(t, d)
			require.ErrorIs(t, err, saga.ErrPlan)
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, tt.text)
		})
	}
}

func TestDefine_listsEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := saga.Define("bad name", 0, func(b *saga.Builder[chan int, func()]) {
		saga.StepFunc(b, "a", b.Input(), func(context.Context, saga.Call[chan int]) (struct{ hidden int }, error) {
			return struct{ hidden int }{}, nil
		})
	})
	var plan *saga.PlanError
	require.ErrorAs(t, err, &plan)
	require.ErrorIs(t, err, saga.ErrType)
	for _, text := range []string{
		"name: ", "version: 0", "input: JSON does not keep all of a value: chan int", "result: JSON does not keep all of a value: func()",
		`step "a"`, "has no exported field", "there is no Return",
	} {
		require.ErrorContains(t, err, text)
	}
	_, err = saga.Define[order, nothing]("name", 1, nil)
	require.ErrorContains(t, err, "the function that declares it is nil")
	require.PanicsWithError(t, err.Error(), func() { saga.MustDefine[order, nothing]("name", 1, nil) })
}

// A mistake of one kind does not hide those of others: a cycle least of all.
func TestDefine_listsEveryProblem_besideACycle(t *testing.T) {
	t.Parallel()
	_, err := saga.Define("bad name", 1, func(b *saga.Builder[order, nothing]) {
		twice := step(b, "a.a")
		step(b, "a.a").UndoFunc("a.undo", undo)
		c := step(b, "c.c").UndoFunc("c.undo", undo)
		c.After(step(b, "d.d").ReadOnly().Irreversible().After(c))
		saga.StepFunc[order, nothing, order, nothing](b, "e.e", b.Input(), nil)
		step(b, "f.f").UndoFunc("f.undo", undo).Retention(time.Hour)
		step(b, "g.g").Pivot().After(twice, c)
		step(b, "h.h").Pivot()
		step(b, "i.i").After(step(b, "j.j").Pivot())
	})
	for _, want := range []error{saga.ErrDuplicateStep, saga.ErrCycle, saga.ErrRetention, saga.ErrMissingUndo, saga.ErrPivot} {
		require.ErrorIs(t, err, want)
	}
	for _, text := range []string{
		"name: ", "a.a is there twice", "wait for each other: c.c after d.d after c.c", "step d.d: a ReadOnly step has nothing to undo",
		"step e.e: the function is nil", "step f.f: its callee remembers keys for 1h0m0s", "step h.h, pivot g.g: there are two pivots",
		"step i.i, pivot g.g: it runs beside the pivot", "step i.i has no undo, and a.a can fail after it",
	} {
		require.ErrorContains(t, err, text)
	}
	var plan *saga.PlanError
	require.ErrorAs(t, err, &plan)
	for _, problem := range plan.Problems {
		if errors.Is(problem, saga.ErrPivot) {
			require.NotRegexp(t, "step (c.c|d.d)", problem.Error(), "the steps of the cycle run before the pivot")
		}
	}
}

func TestDefine_accepts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		build func(b *saga.Builder[order, nothing])
		pivot string // the one that is found
	}{
		{"one step", func(b *saga.Builder[order, nothing]) { step(b, "a.a") }, "a.a"},
		{"a last step without an undo", func(b *saga.Builder[order, nothing]) {
			step(b, "b.b").After(step(b, "a.a").UndoFunc("a.undo", undo))
		}, "b.b"},
		{"and retriable ones behind it", func(b *saga.Builder[order, nothing]) {
			a := step(b, "a.a")
			step(b, "b.b").Retriable().After(a)
			step(b, "c.c").Retriable().After(a)
		}, "a.a"},
		{"all retriable", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Retriable()
			step(b, "b.b").Retriable()
		}, ""},
		{"what stays, and what is read", func(b *saga.Builder[order, nothing]) {
			step(b, "a.a").Irreversible()
			step(b, "b.b").ReadOnly()
			step(b, "c.c").UndoFunc("c.undo", undo)
		}, ""},
	}
	for _, tt := range tests {
		d, err := saga.Define("name", 1, tt.build)
		require.NoError(t, err, tt.name)
		pivot := ""
		for _, s := range d.Steps() {
			if s.Pivot {
				pivot = s.Name
			}
		}
		require.Equal(t, tt.pivot, pivot, tt.name)
	}
}

func TestDefinition_Plan(t *testing.T) {
	t.Parallel()
	want := []string{
		"inventory.reserve POST /reservations undo inventory.release POST /reservations/release",
		"payment.charge POST /charges undo payment.refund POST /charges/refund",
		"shipping.book POST /parcels pivot after inventory.reserve, payment.charge",
		"mail.receipt POST /receipts retriable after shipping.book",
	}
	require.Equal(t, want, checkout.Plan().Lines)
	same := saga.MustDefine("checkout", 1, func(b *saga.Builder[order, receipt]) {
		shop(b)
		b.Timeout(time.Minute) // may be tuned
	})
	require.Equal(t, checkout.Plan().Hash, same.Plan().Hash)
	others := []*saga.Definition[order, receipt]{
		saga.MustDefine("checkout", 2, shop), saga.MustDefine("check-out", 1, shop),
	}
	for _, other := range others {
		require.NotEqual(t, checkout.Plan().Hash, other.Plan().Hash)
	}
	require.Equal(t, "checkout", checkout.Name())
	require.Equal(t, 1, checkout.Version())
}

func TestPlanError_unwraps(t *testing.T) {
	t.Parallel()
	_, err := saga.Define("name", 1, func(b *saga.Builder[order, nothing]) {
		step(b, "b.b").Pivot().After(step(b, "a.a"))
	})
	var plan *saga.PlanError
	require.ErrorAs(t, err, &plan)
	require.Len(t, plan.Problems, 1)
	require.ErrorIs(t, plan.Problems[0], saga.ErrMissingUndo)
	require.EqualError(t, plan.Problems[0], "saga: missing undo: step a.a has no undo, and b.b can fail after it; give it Undo, ReadOnly, Irreversible, Pivot or Retriable")
}

// take is an operation that names its undo.
var take = contract.Post[order, hold]("inventory", "take", "/takes/{$}").
	UndoneBy(contract.Post[contract.Undo[order, hold], struct{}]("inventory", "return", "/returns"))

// A step has the undo of its operation, until it says otherwise.
func TestStep_undoOfItsOperation(t *testing.T) {
	t.Parallel()
	type stepRef = saga.StepRef[order, hold]
	other := contract.Post[contract.Undo[order, hold], struct{}]("inventory", "other", "/others")
	for _, tt := range []struct {
		name string
		say  func(*stepRef)
		want string
	}{
		{"nothing", func(*stepRef) {}, "inventory.return[a]"},
		{"another", func(s *stepRef) { s.Undo(other) }, "inventory.other[a]"},
		{"a function", func(s *stepRef) {
			s.UndoFunc("local.undo", func(context.Context, saga.UndoCall[order, hold]) error { return nil })
		}, "local.undo[a]"},
		{"read only", func(s *stepRef) { s.ReadOnly() }, ""},
		{"irreversible", func(s *stepRef) { s.Irreversible() }, ""},
		{"pivot", func(s *stepRef) { s.Pivot() }, ""},
	} {
		d, err := saga.Define("d", 1, func(b *saga.Builder[order, nothing]) {
			tt.say(saga.Step(b, take.For("a"), b.Input()))
		})
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, d.Steps()[0].Undo, tt.name)
	}
}

// captureID has the ID of a charge in its path.
var captureID = contract.Post[order, hold]("payment", "capture", "/charges/{id}/capture")

func skuOf(b *saga.Builder[order, nothing]) saga.Value[string] {
	return saga.Map(b.Input(), func(o order) string { return o.SKU })
}
