package saga_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

func ExamplePlanSteps() {
	plan := checkout.Plan() // as a journal.Reader returns it
	steps, _ := saga.PlanSteps(plan)
	for _, s := range steps {
		fmt.Println(s.Name, s.Shape, s.Undo, s.Pivot, s.After)
	}
	// Output:
	// inventory.reserve POST /reservations inventory.release false []
	// payment.charge POST /charges payment.refund false []
	// shipping.book POST /parcels  true [inventory.reserve payment.charge]
	// mail.receipt POST /receipts  false [shipping.book]
}

// hashed gives a plan's record the hash of its lines, as a build that knows all of them does.
func hashed(r journal.PlanRecord) journal.PlanRecord {
	h := sha256.New()
	for _, part := range slices.Concat([]string{"saga-plan/v1", r.Name, fmt.Sprint(r.Version)}, r.Lines) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Sum(r.Hash[:0])
	return r
}

func TestPlanSteps_whatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		lines []string
		want  error
	}{
		{"no step", nil, saga.ErrNewer},
		{"a mark of the plan instead of a step", []string{"checkpoint edges"}, saga.ErrNewer},
		{"an unknown mark", []string{"a.a function eventual"}, saga.ErrNewer},
		{"marks in another order", []string{"a.a function read-only retriable"}, saga.ErrNewer},
		{"a mark twice", []string{"a.a function pivot pivot"}, saga.ErrNewer},
		{"no shape", []string{"a.a"}, saga.ErrNewer},
		{"another shape", []string{"a.a method read-only"}, saga.ErrNewer},
		{"no name", []string{" function"}, saga.ErrNewer},
		{"an undo without a shape", []string{"a.a function undo b.b"}, saga.ErrNewer},
		{"a step twice", []string{"a.a function", "a.a function"}, saga.ErrNewer},
		{"two pivots", []string{"a.a function pivot", "b.b function pivot"}, saga.ErrNewer},
		{"it waits for no step", []string{"a.a function after b.b"}, saga.ErrNewer},
		{"it waits for itself", []string{"a.a function after a.a"}, saga.ErrNewer},
		{"it waits twice", []string{"a.a function", "b.b function after a.a, a.a"}, saga.ErrNewer},
		{"a bracket without an end", []string{"a.a[x function"}, saga.ErrNewer},
		{"a quote without an end", []string{`a.a["x] function`}, saga.ErrNewer},
		{"quotes that need not be", []string{`a.a["x"] function`}, saga.ErrNewer},
		{"a space at the end", []string{"a.a function "}, saga.ErrNewer},
		{"a shape that is not known", []string{"a.a sleep-well"}, saga.ErrNewer},
		{"a sleep with a mark", []string{"a.a sleep read-only"}, saga.ErrNewer},
		{"a sleep with an undo", []string{"a.a sleep undo a.b function"}, saga.ErrNewer},
		{"an await with a mark", []string{"a.a await retriable"}, saga.ErrNewer},
		{"an undo that waits", []string{"a.a function undo a.b await"}, saga.ErrNewer},
		{"an undo that sleeps", []string{"a.a function undo a.b sleep-until"}, saga.ErrNewer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := saga.PlanSteps(hashed(journal.PlanRecord{Name: "checkout", Version: 1, Lines: tt.lines}))
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, "checkout version 1")
		})
	}
	plan := checkout.Plan()
	plan.Lines = slices.Clone(plan.Lines)
	plan.Lines[2] = strings.Replace(plan.Lines[2], " pivot", "", 1)
	_, err := saga.PlanSteps(plan)
	require.ErrorIs(t, err, saga.ErrCorrupt)
	require.NotErrorIs(t, err, saga.ErrNewer)
}

// The steps that a journal keeps are those that were declared, whatever their names are.
func FuzzPlanSteps(f *testing.F) {
	f.Add("shop.eu", "take/one", "x", "y", uint16(0))
	f.Add("a.", "b.c", `"],[ after a.b`, "\x00, \"undo", uint16(0xffff))
	f.Add("a-", "b", "with space", "p pivot", uint16(0x1234))
	f.Add("a", "b", "\xff\\", "]", uint16(0x0f0f))
	f.Fuzz(func(t *testing.T, service, operation, one, two string, marks uint16) {
		mark := func(n int) bool { return marks>>n&1 == 1 }
		d, err := saga.Define("fuzzed", 1, func(b *saga.Builder[order, nothing]) {
			op := contract.Post[order, nothing](service, operation, "/orders/{id}/x;a=%20").At("id", "7")
			first := saga.Step(b, op.For(one), b.Input())
			second := saga.Step(b, op.For(one, two), b.Input())
			last := step(b, "last.one")
			saga.Await(b, saga.NewSignal[int]("last.told")).Timeout(time.Hour).Optional().After(saga.Await(b, saga.NewSignal[order]("first.told")).After(last))
			saga.SleepUntil(b, "last.nap", saga.Const(b, time.Unix(1, 0))).After(saga.Sleep(b, "first.nap", saga.Const(b, time.Hour)).After(last))
			if mark(0) {
				first.Retention(48 * time.Hour)
				second.Retention(48 * time.Hour)
				last.Retention(48 * time.Hour)
			}
			if mark(1) {
				undo := contract.Post[contract.Undo[order, nothing], nothing](service, operation+"-undone", "/undo")
				first.Undo(undo)
			} else {
				first.ReadOnly()
			}
			if mark(2) {
				second.Irreversible()
			} else {
				second.ReadOnly().Retriable()
			}
			switch {
			case mark(3):
				last.Pivot().After(first, second)
			case mark(4):
				last.ReadOnly()
				second.After(last, first)
			default:
				last.ReadOnly().After(second)
			}
		})
		if err != nil {
			t.Logf("refused: %v", err) // names that no step can have
			return
		}
		steps, err := saga.PlanSteps(d.Plan())
		if err != nil {
			t.Fatalf("lines %q: %v", d.Plan().Lines, err)
		}
		for i, want := range d.Steps() {
			want.Attempts, want.Timeout, want.ZeroOutput = 0, 0, nil
			want.Service, want.Operation = steps[i].Service, steps[i].Operation // a guess
			if !want.IsFunction() && !want.IsSleep() && !want.IsAwait() && want.Shape != "POST /orders/{id}/x;a=%20" {
				t.Errorf("step %d has the shape %s", i, want.Shape)
			}
			if !reflect.DeepEqual(steps[i], want) {
				t.Errorf("step %d of %q = %+v, want %+v", i, d.Plan().Lines, steps[i], want)
			}
		}
	})
}

// Lines that anybody has written are read as they are, or not at all.
func FuzzPlanSteps_anyLines(f *testing.F) {
	f.Add(strings.Join(checkout.Plan().Lines, "\n"))
	f.Add("a.a[\"x\\n\",y z] function undo b.b[] PUT /x after c.c\nc.c function")
	f.Fuzz(func(t *testing.T, text string) {
		r := hashed(journal.PlanRecord{Name: "fuzzed", Version: 1, Lines: strings.Split(text, "\n")})
		steps, err := saga.PlanSteps(r)
		if err != nil {
			require.ErrorIs(t, err, saga.ErrNewer)
			return
		}
		for i, s := range steps {
			line := r.Lines[len(r.Lines)-len(steps)+i]
			if !strings.HasPrefix(line, s.Name+" "+s.Shape) || s.Pivot != strings.Contains(line, s.Shape+" pivot") ||
				len(s.After) > 0 && !strings.HasSuffix(line, " after "+strings.Join(s.After, ", ")) {
				t.Errorf("line %q = %+v", line, s)
			}
		}
	})
}
