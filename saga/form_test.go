package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A shape is a saga with one plan and varying types. The types of its input, of its first step's
// output, and of its result vary. Without idOf only the undo reads the first step's output.
func shape[In, Held, Out any](inputOf func(In) order, idOf func(Held) string, resultOf func(parcel) Out) *saga.Definition[In, Out] {
	reserve := contract.Post[order, Held]("inventory", "reserve", "/reservations")
	release := contract.Post[contract.Undo[order, Held], undone]("inventory", "release", "/reservations/release")
	return saga.MustDefine("shape", 1, func(b *saga.Builder[In, Out]) {
		b.UndoBudget(undoBudget)
		held := saga.Step(b, reserve, saga.Map(b.Input(), inputOf)).Undo(release)
		in := saga.Map(b.Input(), func(In) booking { return booking{} })
		if idOf != nil {
			in = saga.Map(held.Output(), func(h Held) booking { return booking{Hold: idOf(h)} })
		}
		sent := saga.Step(b, book, in).After(held)
		saga.Return(b, saga.Map(sent.Output(), resultOf))
	})
}

type (
	renamedOrder struct {
		Article string `json:"article"`
		Cents   int    `json:"cents"`
	}
	renamedHold struct{ HoldID string }
	grownHold   struct{ ID, Warehouse string }
	renamedEnd  struct{ Number string }
)

func orderOf(o order) order      { return o }
func idOf(h hold) string         { return h.ID }
func receiptOf(p parcel) receipt { return receipt(p) }

func oldShape() saga.AnyDefinition { return shape(orderOf, idOf, receiptOf) }

func grownShape() saga.AnyDefinition {
	return shape(orderOf, func(h grownHold) string { return h.ID }, receiptOf)
}

func otherInput() saga.AnyDefinition {
	return shape(func(o renamedOrder) order { return order{SKU: o.Article} }, idOf, receiptOf)
}

func otherOutput() saga.AnyDefinition {
	return shape(orderOf, func(h renamedHold) string { return h.HoldID }, receiptOf)
}

// startShape starts the saga in a process that dies when it writes for the nth time.
func startShape(s *stage, nth int) {
	s.Helper()
	startShapeOf(s, nth, shape(orderOf, idOf, receiptOf))
}

func startShapeOf(s *stage, nth int, first *saga.Definition[order, receipt]) {
	s.Helper()
	s.services.Answer("inventory.reserve", `{"ID":"h-1","Since":"members that callees add are none of ours"}`)
	s.services.Answer("shipping.book", `{"Track":"t"}`)
	e := s.openOn(dead(s.journal, func(method string, n int) bool { return method == "Append" && n == nth }), first)
	_, err := first.Start(s.Context(), e, key(s.T, "k"), basket)
	require.NoError(s, err)
}

// Values that were stored under other types are not read as zero values. The saga waits for a
// process that has the types.
func TestTakeOver_otherTypes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		other  saga.AnyDefinition
		nth    int // write that the first process does not live to see
		reject bool
		more   int // calls of the second process
		text   string
		idOf   func(hold) string // of the first process and of the third
	}{
		{"input", otherInput(), 1, false, 0, `input: saga: stored by a newer build: saga_test.renamedOrder has no member "sku"`, idOf},
		{"output", otherOutput(), 2, false, 0, `output of inventory.reserve: saga: stored by a newer build: saga_test.renamedHold has no member "ID"`, idOf},
		{"output to undo", shape[order, renamedHold](orderOf, nil, receiptOf), 3, true, 0, `output of inventory.reserve`, nil},
		{"output to undo, from here on", shape[order, renamedHold](orderOf, nil, receiptOf), 2, true, 1, `output of inventory.reserve`, nil},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			want := error(nil)
			if tt.reject {
				s.services.Script("shipping.book", sagatest.Reject(409))
				want = saga.ErrCompensated
			}
			startShapeOf(s, tt.nth, shape(orderOf, tt.idOf, receiptOf))
			time.Sleep(saga.DefaultLease) // it dies
			sent := len(s.services.Deliveries())
			second := s.open(tt.other)
			r := s.untilDeferred("k")
			require.Equal(s, journal.ReasonNewer, r.Deferred.Reason, tt.name)
			require.Contains(s, r.Deferred.Detail, tt.text, tt.name)
			require.Len(s, s.services.Deliveries(), sent+tt.more, tt.name)
			require.NoError(s, second.Close(s.Context()))

			third := shape(orderOf, tt.idOf, receiptOf)
			_, err := third.Run(s.Context(), s.open(third), key(s.T, "k"), basket)
			require.ErrorIs(s, err, want, tt.name)
		})
	}
}

// A type may gain a field: what callees return grows, and this library's own types
// with it.
func TestTakeOver_grownType(t *testing.T) {
	t.Parallel()
	for _, d := range []saga.AnyDefinition{oldShape(), grownShape()} {
		inBubble(t, func(s *stage) {
			startShape(s, 2)
			s.open(d)
			s.until("k", journal.Completed)
			s.wantEffects("inventory.reserve", 1, 0)
		})
	}
}

// grownOrder is what order may grow into.
type grownOrder struct {
	SKU   string `json:"sku"`
	Cents int    `json:"cents"`
	Note  string `json:"note,omitempty"`
}

// newerShape is shape in a build that knows one more field of the input.
func newerShape() *saga.Definition[grownOrder, receipt] {
	return shape(func(o grownOrder) order { return order{o.SKU, o.Cents} }, idOf, receiptOf)
}

// A field that is left out while it is zero can be added under the same version, and
// an older build takes the saga over and attaches to it.
func TestTakeOver_byAnOlderBuild(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		older := shape(orderOf, idOf, receiptOf)
		enqueue(s, newerShape(), "k", grownOrder{SKU: basket.SKU, Cents: basket.Cents})
		_, err := older.Run(s.Context(), s.open(older), key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

// mailed is a saga whose last step is refused, past its pivot. Its plan does not depend
// on Parcel.
func mailed[Parcel any](trackOf func(Parcel) string) *saga.Definition[order, receipt] {
	return saga.MustDefine("mailed", 1, func(b *saga.Builder[order, receipt]) {
		sent := saga.Step(b, contract.Post[order, Parcel]("shipping", "book", "/parcels"), b.Input()).Pivot()
		saga.Step(b, notify, saga.Map(sent.Output(), func(p Parcel) parcel { return parcel{trackOf(p)} })).Retriable()
		saga.Return(b, saga.Map(sent.Output(), func(p Parcel) receipt { return receipt{trackOf(p)} }))
	})
}

// Where a person's word is the last that a saga needs, no call is begun before its
// result is made.
func TestForceOK_otherTypes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		first := mailed(func(p parcel) string { return p.Track })
		s.services.Answer("shipping.book", `{"Track":"t"}`)
		s.services.Script("mail.receipt", sagatest.Reject(422))
		e := s.open(first)
		_, err := first.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.NoError(s, e.Close(s.Context()))

		other := mailed(func(p renamedEnd) string { return p.Number })
		e = s.open(other)
		_, err = e.ForceOK(s.Context(), s.id("k"), "shipping.book", parcel{"by hand"}, someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		_, err = e.ForceOK(s.Context(), s.id("k"), "mail.receipt", parcel{"no member of the step's"}, someone)
		require.ErrorIs(s, err, saga.ErrEncode)
		_, err = e.ForceOK(s.Context(), s.id("k"), "mail.receipt", nothing{}, someone)
		require.NoError(s, err)
		s.untilDeferred("k")
		require.NoError(s, e.Close(s.Context()))

		e = s.open(first)
		got, err := first.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, receipt{"t"}, got)
	})
}

// A result of another type is not there, as nobody may take its zero value for the result.
func TestRun_resultOfAnotherType(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		first := shape(orderOf, idOf, receiptOf)
		s.services.Answer("shipping.book", `{"Track":"t"}`)
		_, err := first.Run(s.Context(), s.open(first), key(s.T, "k"), basket)
		require.NoError(s, err)
		other := shape(orderOf, idOf, func(p parcel) renamedEnd { return renamedEnd{p.Track} })
		_, err = other.Run(s.Context(), s.open(other), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrNoResult)
		require.ErrorIs(s, err, saga.ErrCorrupt)
	})
}

// runNext runs version 2 of a saga whose version 1 returned result, and requires what Run returns.
func runNext[Old, New any](s *stage, name string, result Old, want New, wantErr error) {
	s.Helper()
	of := strings.ReplaceAll(name, " ", "-")
	first := returning(of, 1, result)
	_, err := first.Run(s.Context(), s.open(first), key(s.T, "k"), basket)
	require.NoError(s, err, name)
	next := returning(of, 2, *new(New))
	got, err := next.Run(s.Context(), s.open(next), key(s.T, "k"), basket)
	require.ErrorIs(s, err, wantErr, name)
	require.Equal(s, want, got, name)
}

// returning is a saga that returns result.
func returning[Out any](name string, version int, result Out) *saga.Definition[order, Out] {
	return saga.MustDefine(name, version, func(b *saga.Builder[order, Out]) {
		saga.Return(b, saga.StepFunc(b, "a.b", b.Input(), func(context.Context, saga.Call[order]) (Out, error) {
			return result, nil
		}).Output())
	})
}

// The result of another version is a result only if it is of the declared type.
func TestRun_resultOfAnotherVersion(t *testing.T) {
	t.Parallel()
	type (
		number   struct{ Number string }
		id       struct{ ID string }
		more     struct{ Number, At string }
		swapped  struct{ At, Number string }
		optional struct {
			Number string
			At     string `json:",omitempty"`
		}
		outer struct{ In number }
		other struct{ In id }
	)
	inBubble(t, func(s *stage) {
		none := saga.ErrNoResult
		runNext(s, "same type", number{"1"}, number{"1"}, nil)
		runNext(s, "no result", nothing{}, nothing{}, nil)
		runNext(s, "members in another order", more{"1", "now"}, swapped{"now", "1"}, nil)
		runNext(s, "optional member is new", number{"1"}, optional{Number: "1"}, nil)
		runNext(s, "member renamed", number{"1"}, id{}, none)
		runNext(s, "member added", number{"1"}, more{}, none)
		runNext(s, "member removed", more{"1", "now"}, number{}, none)
		runNext(s, "no result before", nothing{}, number{}, none)
		runNext(s, "no result now", number{"1"}, nothing{}, none)
		runNext(s, "member of a member", outer{number{"1"}}, other{}, none)
		runNext(s, "members of a list", []number{{"1"}}, []id(nil), none)
		runNext(s, "number for a text", "1", 0, none)
		runNext(s, "member in another case", struct{ NUMBER string }{"1"}, number{}, none)
	})
}

// The program that enqueues a saga may be built from another source than the program that runs
// it.
func TestRun_enqueuedWithAnotherType(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		enqueue(s, shape(orderOf, idOf, receiptOf), "k", basket)
		s.open(otherInput())
		require.Equal(s, journal.ReasonNewer, s.untilDeferred("k").Deferred.Reason)
		require.Empty(s, s.services.Deliveries())
	})
}

// aisle is a saga of three steps. The first step leaves no effect. The input of the second one is
// the saga's input. The input of the third one is the output of the first. Its plan does not
// depend on the types.
func aisle[In, Seen any](levelOf func(Seen) string) *saga.Definition[In, nothing] {
	return saga.MustDefine("aisle", 1, func(b *saga.Builder[In, nothing]) {
		b.UndoBudget(undoBudget)
		seen := saga.StepFunc(b, "a.look", b.Input(), func(context.Context, saga.Call[In]) (Seen, error) {
			return *new(Seen), errors.New("it is not asked again")
		}).ReadOnly()
		saga.StepFunc(b, "b.keep", b.Input(), func(context.Context, saga.Call[In]) (nothing, error) {
			return nothing{}, errors.New("it is not asked again")
		}).UndoFunc("b.drop", func(context.Context, saga.UndoCall[In, nothing]) error {
			return nil
		})
		saga.StepFunc(b, "c.take", saga.Map(seen.Output(), levelOf), func(context.Context, saga.Call[string]) (nothing, error) {
			return nothing{}, nil
		}).UndoFunc("c.return", func(context.Context, saga.UndoCall[string, nothing]) error {
			return nil
		})
	})
}

// A saga that goes back decodes only the inputs of the calls that are still due.
func TestCompensate_otherTypes(t *testing.T) {
	t.Parallel()
	type (
		level      struct{ Level string }
		otherLevel struct{ Height string }
	)
	done := func(step, result string) journal.Entry {
		return journal.Entry{Step: step, Outcome: retry.Completed, Result: []byte(result)}
	}
	looked, kept, taken := done("a.look", `{"Level":"3"}`), done("b.keep", `{}`), done("c.take", `{}`)
	sameTypes := aisle[order](func(l level) string { return l.Level })
	otherInput := aisle[renamedOrder](func(l level) string { return l.Level })
	otherOutput := aisle[order](func(l otherLevel) string { return l.Height })
	tests := []struct {
		name     string
		by       saga.AnyDefinition
		entries  []journal.Entry
		undone   []string
		deferred string // the reason; "": the saga is compensated
	}{
		{"the reader never ran", otherOutput, []journal.Entry{looked, kept}, []string{"b.keep"}, ""},
		{"the reader was refused", otherOutput, []journal.Entry{looked, kept, {Step: "c.take", Outcome: retry.Rejected}}, []string{"b.keep"}, ""},
		{"the reader is undone", otherOutput, []journal.Entry{
			looked, kept, taken, {Step: "c.take", Undo: true, Outcome: retry.Completed},
		}, []string{"b.keep"}, ""},
		{"the reader is to be undone", otherOutput, []journal.Entry{looked, taken}, nil, "output of a.look"},
		{"the reader is to be resolved", otherOutput, []journal.Entry{looked, {Step: "c.take", Pending: true}}, nil, "output of a.look"},
		{"nobody reads the input any more", otherInput, []journal.Entry{looked, {Step: "b.keep", Outcome: retry.Rejected}, taken}, []string{"c.take"}, ""},
		{"who reads the input is to be undone", otherInput, []journal.Entry{looked, kept}, nil, "input"},
		{"the same types", sameTypes, []journal.Entry{looked, kept, taken}, []string{"c.take", "b.keep"}, ""},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			req, err := sameTypes.Request(key(s.T, "k"), basket)
			require.NoError(s, err)
			req.Engine = journal.EngineID{1}
			_, _, err = s.journal.Start(s.Context(), req)
			require.NoError(s, err)
			require.NoError(s, s.journal.Append(s.Context(), journal.Owner{ID: req.ID, Engine: req.Engine, Fence: 1}, journal.Write{
				Revision: 2, Status: journal.Compensating, Entries: tt.entries, Cause: &journal.Failure{Reason: journal.ReasonCancel},
			}))
			s.open(tt.by)
			if tt.deferred != "" {
				r := s.untilDeferred("k")
				require.Equal(s, journal.ReasonNewer, r.Deferred.Reason, tt.name)
				require.Contains(s, r.Deferred.Detail, tt.deferred, tt.name)
			} else {
				s.until("k", journal.Compensated)
			}
			s.events.mu.Lock()
			defer s.events.mu.Unlock()
			var undone []string
			for _, try := range s.events.tries {
				require.True(s, try.Undo, "%s: %s was called", tt.name, try.Step)
				undone = append(undone, try.Step)
			}
			require.ElementsMatch(s, tt.undone, undone, tt.name)
		})
	}
}
