package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A held is the output of the first step of [version].
type held struct {
	ID string `json:"id"`
}

// does returns a function of a step with that output.
func does[In, Out any](out Out) func(context.Context, saga.Call[In]) (Out, error) {
	return func(context.Context, saga.Call[In]) (Out, error) { return out, nil }
}

func undoes[In, Out any]() func(context.Context, saga.UndoCall[In, Out]) error {
	return func(context.Context, saga.UndoCall[In, Out]) error { return nil }
}

// A version of the saga "lent": stock.hold, beside stock.look, then a sleep, then the pivot stock.lend and stock.tell. The
// first two steps have ended when the saga sleeps.
type version struct {
	holds  func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held]
	looks  func(b *saga.Builder[order, nothing]) saga.AnyStep
	sleeps func(b *saga.Builder[order, nothing]) *saga.SleepRef
	pivot  string
	more   func(b *saga.Builder[order, nothing], hold *saga.StepRef[order, held], lend *saga.StepRef[order, nothing])
}

func hold1(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
	return saga.StepFunc(b, "stock.hold", b.Input(), does[order](held{"h-1"}))
}

var lent1 = version{
	holds: func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
		return hold1(b).UndoFunc("stock.release", undoes[order, held]())
	},
	looks: func(b *saga.Builder[order, nothing]) saga.AnyStep { return step(b, "stock.look").ReadOnly() },
	sleeps: func(b *saga.Builder[order, nothing]) *saga.SleepRef {
		return saga.Sleep(b, "loan.begins", saga.Const(b, 10*24*time.Hour))
	},
	pivot: "stock.lend",
}

// but returns the version with a change.
func (v version) but(edit func(v *version)) version {
	edit(&v)
	return v
}

func (v version) define(number int) *saga.Definition[order, nothing] {
	return saga.MustDefine("lent", number, func(b *saga.Builder[order, nothing]) {
		hold := v.holds(b)
		after := []saga.AnyStep{hold}
		if v.looks != nil {
			after = append(after, v.looks(b))
		}
		nap := v.sleeps(b).After(after...)
		lend := step(b, v.pivot).Pivot().After(nap)
		step(b, "stock.tell").Retriable().After(lend)
		if v.more != nil {
			v.more(b, hold, lend)
		}
	})
}

// store has a journal keep the plan of a definition, as an engine does that opens with it.
func (s *stage) store(definitions ...saga.AnyDefinition) {
	s.Helper()
	require.NoError(s, s.openWith(s.journal, slow(definitions...)).Close(s.Context()))
}

// problemsOf returns the problems of a refusal, without their texts.
func problemsOf(t *testing.T, err error) (problems []saga.MigrationProblem) {
	t.Helper()
	var refused *saga.MigrationError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, saga.ErrConflict)
	for _, p := range refused.Problems {
		require.Contains(t, err.Error(), p.Text)
		require.Contains(t, p.Text, p.Step)
		p.Text = ""
		problems = append(problems, p)
	}
	return problems
}

// Whatever differs in what has begun is a reason to refuse, and each reason is named. What has not begun may differ.
func TestMigrate_refuses(t *testing.T) {
	t.Parallel()
	type problem = saga.MigrationProblem
	holds := func(declare func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held]) func(*version) {
		return func(v *version) { v.holds = declare }
	}
	looks := func(declare func(b *saga.Builder[order, nothing]) saga.AnyStep) func(*version) {
		return func(v *version) { v.looks = declare }
	}
	for _, tt := range []struct {
		name   string
		edit   func(v *version)
		typed  bool // only types and functions tell
		expect []problem
	}{
		{"the same", func(*version) {}, false, nil},
		{"a step more", func(v *version) {
			v.more = func(b *saga.Builder[order, nothing], hold *saga.StepRef[order, held], lend *saga.StepRef[order, nothing]) {
				saga.StepFunc(b, "stock.file", hold.Output(), does[held](nothing{})).Retriable().After(lend)
			}
		}, false, nil},
		{"another length of the sleep", func(v *version) {
			v.sleeps = func(b *saga.Builder[order, nothing]) *saga.SleepRef {
				return saga.Sleep(b, "loan.begins", saga.Const(b, time.Hour))
			}
		}, false, nil},
		{"a step before the first one", holds(func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
			return lent1.holds(b).After(step(b, "stock.count").ReadOnly())
		}), false, []problem{{saga.MigrationUnfinished, "stock.hold", ""}}},
		{"a step before the sleep", func(v *version) {
			v.sleeps = func(b *saga.Builder[order, nothing]) *saga.SleepRef {
				return lent1.sleeps(b).After(step(b, "stock.count").ReadOnly())
			}
		}, false, []problem{{saga.MigrationUnfinished, "loan.begins", ""}}},
		{"without a step that has ended", func(v *version) { v.looks = nil }, false, []problem{{saga.MigrationNoStep, "stock.look", ""}}},
		{"another pivot", func(v *version) { v.pivot = "stock.give" }, false, []problem{{saga.MigrationPivot, "stock.give", ""}}},
		{"another undo", holds(func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
			return hold1(b).UndoFunc("stock.drop", undoes[order, held]())
		}), false, []problem{{saga.MigrationUndo, "stock.hold", ""}}},
		{"no undo", holds(func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] { return hold1(b).Irreversible() }), false,
			[]problem{{saga.MigrationUndo, "stock.hold", ""}, {saga.MigrationMarks, "stock.hold", ""}}},
		{"an undo where there was none", looks(func(b *saga.Builder[order, nothing]) saga.AnyStep {
			return step(b, "stock.look").UndoFunc("stock.forget", undo)
		}), false, []problem{{saga.MigrationUndo, "stock.look", ""}, {saga.MigrationMarks, "stock.look", ""}}},
		{"optional", looks(func(b *saga.Builder[order, nothing]) saga.AnyStep { return step(b, "stock.look").ReadOnly().Optional() }), false,
			[]problem{{saga.MigrationMarks, "stock.look", ""}}},
		{"conditional", looks(func(b *saga.Builder[order, nothing]) saga.AnyStep {
			return step(b, "stock.look").ReadOnly().When(saga.Const(b, true))
		}), false, []problem{{saga.MigrationMarks, "stock.look", ""}}},
		{"another name of a step that has ended", looks(func(b *saga.Builder[order, nothing]) saga.AnyStep {
			return saga.StepFunc(b, "stock.see", b.Input(), does[order](nothing{})).ReadOnly()
		}), false, []problem{{saga.MigrationNoStep, "stock.look", ""}, {saga.MigrationUnfinished, "loan.begins", ""}}},
		{"a sleep until a time", func(v *version) {
			v.sleeps = func(b *saga.Builder[order, nothing]) *saga.SleepRef {
				return saga.SleepUntil(b, "loan.begins", saga.Const(b, time.Now().Add(time.Hour)))
			}
		}, false, []problem{{saga.MigrationCall, "loan.begins", ""}}},
		{"all at once", func(v *version) {
			v.looks, v.pivot = nil, "stock.give"
			v.holds = func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
				return hold1(b).UndoFunc("stock.drop", undoes[order, held]()).After(step(b, "stock.count").ReadOnly())
			}
		}, false, []problem{
			{saga.MigrationPivot, "stock.give", ""}, {saga.MigrationUndo, "stock.hold", ""}, {saga.MigrationUnfinished, "stock.hold", ""},
			{saga.MigrationNoStep, "stock.look", ""},
		}},
		{"another input of a call that may be undone", holds(func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
			two := saga.Map(b.Input(), func(o order) order { return order{o.SKU, 2 * o.Cents} })
			return saga.StepFunc(b, "stock.hold", two, does[order](held{"h-1"})).UndoFunc("stock.release", undoes[order, held]())
		}), true, []problem{{saga.MigrationRequest, "stock.hold", ""}}},
		{"an input that panics", holds(func(b *saga.Builder[order, nothing]) *saga.StepRef[order, held] {
			broken := saga.Map(b.Input(), func(order) order { panic("broken") })
			return saga.StepFunc(b, "stock.hold", broken, does[order](held{"h-1"})).UndoFunc("stock.release", undoes[order, held]())
		}), true, []problem{{saga.MigrationRequest, "stock.hold", ""}}},
		{"another input of a call that is over", looks(func(b *saga.Builder[order, nothing]) saga.AnyStep {
			two := saga.Map(b.Input(), func(o order) order { return order{o.SKU, 2 * o.Cents} })
			return saga.StepFunc(b, "stock.look", two, does[order](nothing{})).ReadOnly()
		}), true, nil},
		{"a Timeout that is over", func(v *version) {
			v.more = func(b *saga.Builder[order, nothing], _ *saga.StepRef[order, held], _ *saga.StepRef[order, nothing]) {
				b.Timeout(time.Minute)
			}
		}, true, []problem{{saga.MigrationWouldFail, "", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				before, after := lent1.define(1), lent1.but(tt.edit).define(2)
				s.store(after)
				e := s.openWith(s.journal, slow(before))
				_, err := before.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				was := s.asleep("k")
				time.Sleep(time.Hour)
				stored, err := saga.StoredPlan(after.Plan())
				require.NoError(s, err)
				for _, to := range []saga.AnyDefinition{after, stored} {
					expect := tt.expect
					if tt.typed && to == stored {
						expect = nil
					}
					_, moves, err := s.operator(s.journal, before).CheckMigrate(s.Context(), was.ID, to)
					require.Equal(s, expect == nil, moves)
					require.Equal(s, was.Revision, s.read("k").Revision)
					if expect == nil {
						require.NoError(s, err)
						continue
					}
					require.Equal(s, expect, problemsOf(s.T, err))
					_, moved, err := s.operator(s.journal, before).Migrate(s.Context(), was.ID, to, someone)
					require.Equal(s, expect, problemsOf(s.T, err))
					require.False(s, moved)
					require.Equal(s, was.Revision, s.read("k").Revision, "a refusal wrote")
				}
				if tt.expect != nil {
					return
				}
				r, moved, err := e.Migrate(s.Context(), was.ID, after, someone)
				require.NoError(s, err)
				require.True(s, moved)
				require.Equal(s, 2, r.Version)
				require.Equal(s, after.Plan().Hash, r.Plan)
				s.openWith(s.journal, slow(after))
				time.Sleep(was.WakeAt.Sub(s.read("k").Now))
				done := s.until("k", journal.Completed)
				require.WithinDuration(s, was.WakeAt, done.FinishedAt, 10*time.Minute, "a sleep that has begun keeps its end")
			})
		})
	}
}

// Values are read as strictly as those of another version's result: no member is lost, and none is made up.
func TestMigrate_values(t *testing.T) {
	t.Parallel()
	type wide struct {
		SKU      string `json:"sku"`
		Cents    int    `json:"cents"`
		Currency string `json:"currency"`
	}
	type loose struct {
		SKU      string `json:"sku"`
		Cents    int    `json:"cents"`
		Currency string `json:"currency,omitempty"`
	}
	type narrow struct {
		SKU string `json:"sku"`
	}
	type text struct {
		ID int `json:"id"`
	}
	for _, tt := range []struct {
		name   string
		to     saga.AnyDefinition
		expect []saga.MigrationProblem
	}{
		{"the same types", values[order, held](2), nil},
		{"a member that may be missing", values[loose, held](2), nil},
		{"a member more", values[wide, held](2), []saga.MigrationProblem{{saga.MigrationInput, "", ""}}},
		{"a member less", values[narrow, held](2), []saga.MigrationProblem{{saga.MigrationInput, "", ""}}},
		{"an output of another type", values[order, text](2), []saga.MigrationProblem{{saga.MigrationOutput, "stock.hold", ""}}},
		{"both", values[narrow, text](2), []saga.MigrationProblem{{saga.MigrationInput, "", ""}, {saga.MigrationOutput, "stock.hold", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				before := values[order, held](1)
				s.store(tt.to)
				e := s.openWith(s.journal, slow(before))
				_, err := before.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				id := s.asleep("k").ID
				_, moved, err := s.operator(s.journal).Migrate(s.Context(), id, tt.to, someone)
				require.Equal(s, tt.expect == nil, moved)
				if tt.expect != nil {
					require.Equal(s, tt.expect, problemsOf(s.T, err))
					return
				}
				require.NoError(s, err)
				require.NoError(s, e.Close(s.Context()))
				s.openWith(s.journal, slow(tt.to))
				time.Sleep(25 * time.Hour)
				s.until("k", journal.Completed)
			})
		})
	}
}

// values is a saga whose input is In, and whose first step returns Out.
func values[In, Out any](number int) *saga.Definition[In, nothing] {
	return saga.MustDefine("valued", number, func(b *saga.Builder[In, nothing]) {
		var out Out
		hold := saga.StepFunc(b, "stock.hold", b.Input(), does[In](out)).UndoFunc("stock.release", undoes[In, Out]())
		nap := saga.Sleep(b, "loan.begins", saga.Const(b, 24*time.Hour)).After(hold)
		saga.StepFunc(b, "stock.lend", hold.Output(), does[Out](nothing{})).Pivot().After(nap)
	})
}

// A person expects this of each state of a saga.
func TestMigrate_states(t *testing.T) {
	t.Parallel()
	next := saga.MustDefine("checkout", 2, shop)
	refusedAs := func(reasons ...saga.MigrationReason) func(s *stage, moved bool, err error) {
		return func(s *stage, moved bool, err error) {
			var got []saga.MigrationReason
			for _, p := range problemsOf(s.T, err) {
				got = append(got, p.Reason)
			}
			require.Equal(s, reasons, got)
			require.False(s, moved)
		}
	}
	movesAs := func(status journal.Status) func(s *stage, moved bool, err error) {
		return func(s *stage, moved bool, err error) {
			require.NoError(s, err)
			require.True(s, moved)
			r := s.read("k")
			require.Equal(s, status, r.Status)
			require.Equal(s, 2, r.Version)
			log, err := s.journal.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: r.ID, Limit: 1})
			require.NoError(s, err)
			require.Equal(s, journal.Audit{Verb: journal.VerbMigrate, Step: "1 to 2", Actor: "ann", Reason: "a test"}, log[0].Audit)
		}
	}
	run := func(status journal.Status) func(s *stage, e *saga.Engine) {
		return func(s *stage, e *saga.Engine) {
			_, _ = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.Equal(s, status, s.read("k").Status)
		}
	}
	for _, tt := range []struct {
		name    string
		prepare func(s *stage, e *saga.Engine)
		want    func(s *stage, moved bool, err error)
		after   func(s *stage) // with an engine of both versions
	}{
		{"running", slowHold, movesAs(journal.Running), func(s *stage) {
			s.until("k", journal.Completed)
			s.wantEffects("inventory.reserve", 1, 0)
			s.wantEffects("shipping.book", 1, 0)
		}},
		{"completed", run(journal.Completed), refusedAs(saga.MigrationOver), nil},
		{"compensated", func(s *stage, e *saga.Engine) {
			s.services.Script("shipping.book", sagatest.Reject(409))
			run(journal.Compensated)(s, e)
		}, refusedAs(saga.MigrationOver), nil},
		{"compensating", func(s *stage, e *saga.Engine) {
			s.services.Script("shipping.book", sagatest.Reject(409))
			s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Unavailable()))
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			s.until("k", journal.Compensating)
		}, refusedAs(saga.MigrationGoesBack), nil},
		{"stuck on its way back", stuckUndo, refusedAs(saga.MigrationGoesBack), nil},
		{"cancelled", func(s *stage, e *saga.Engine) {
			require.NoError(s, e.Close(s.Context()))
			_, err := s.operator(s.journal).Cancel(s.Context(), enqueue(s, checkout, "k", basket), someone)
			require.NoError(s, err)
		}, refusedAs(saga.MigrationGoesBack), nil},
		{"stuck past the pivot", stuckMail, movesAs(journal.Stuck), func(s *stage) {
			r := s.read("k")
			require.Equal(s, "mail.receipt", r.StuckOn.Step, "it stays stuck")
			s.services.Script("mail.receipt")
			_, err := s.operator(s.journal, next).ForceOK(s.Context(), r.ID, "mail.receipt", nothing{}, someone)
			require.NoError(s, err)
			s.until("k", journal.Completed)
		}},
		{"a call whose outcome is not known", func(s *stage, e *saga.Engine) {
			s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Always(sagatest.Unavailable()))
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(20 * time.Second)
		}, movesAs(journal.Running), func(s *stage) {
			s.services.Script("payment.charge")
			s.until("k", journal.Completed)
			s.wantEffects("payment.charge", 1, 0)
		}},
		{"to begin later", func(s *stage, e *saga.Engine) {
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket, saga.StartAt(time.Now().Add(time.Hour)))
			require.NoError(s, err)
		}, movesAs(journal.Running), func(s *stage) {
			begun := s.read("k")
			require.Equal(s, begun.CreatedAt.Add(time.Hour), begun.WakeAt, "it begins at its time")
			require.Zero(s, begun.Fence)
			time.Sleep(59 * time.Minute)
			require.Empty(s, s.services.Deliveries())
			require.EqualValues(s, 1, s.until("k", journal.Completed).Fence)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				e := s.openSlow(checkout)
				tt.prepare(s, e)
				was := s.read("k")
				o := s.operator(s.journal)
				_, _, err := o.Migrate(s.Context(), was.ID, next, someone)
				require.ErrorIs(s, err, saga.ErrNoDefinition, "no engine has the version")
				s.openSlow(checkout, next)
				_, moved, err := o.Migrate(s.Context(), was.ID, next, someone)
				tt.want(s, moved, err)
				if tt.after != nil {
					tt.after(s)
				}
			})
		})
	}
}

func TestMigrate_badInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		next := saga.MustDefine("checkout", 2, shop)
		other := saga.MustDefine("refunds", 1, shop)
		changed := saga.MustDefine("checkout", 2, func(b *saga.Builder[order, nothing]) { step(b, "a.a").ReadOnly() })
		s.openSlow(next, other)
		id := enqueue(s, next, "k", basket)
		o := s.operator(s.journal)
		s.until("k", journal.Completed)
		var none *saga.Definition[order, receipt]
		for _, tt := range []struct {
			id   journal.ID
			to   saga.AnyDefinition
			by   journal.Audit
			want error
		}{
			{id, nil, someone, saga.ErrConfig},
			{id, none, someone, saga.ErrConfig},
			{id, changed, someone, saga.ErrPlanChanged},
			{id, checkout, someone, saga.ErrNoDefinition},
			{journal.ID{1}, next, someone, saga.ErrNotFound},
			{id, next, journal.Audit{Actor: "ann"}, saga.ErrReasonRequired},
			{id, other, someone, saga.ErrConflict},
			{id, next, journal.Audit{Actor: "ann", Reason: "r", Revision: 99}, saga.ErrConflict},
		} {
			_, moved, err := o.Migrate(s.Context(), tt.id, tt.to, tt.by)
			require.ErrorIs(s, err, tt.want)
			require.False(s, moved)
		}
		_, _, err := o.Migrate(s.Context(), id, other, someone)
		require.Equal(s, []saga.MigrationProblem{{Reason: saga.MigrationDefinition}}, problemsOf(s.T, err))
		r, moved, err := o.Migrate(s.Context(), id, next, someone)
		require.NoError(s, err, "it is there already, and over")
		require.False(s, moved)
		require.Equal(s, s.read("k").Revision, r.Revision)

		stored, err := saga.StoredPlan(next.Plan())
		require.NoError(s, err)
		_, err = saga.NewOperator(s.journal, stored)
		require.ErrorIs(s, err, saga.ErrConfig, "it can run nothing")
		damaged := next.Plan()
		damaged.Lines = damaged.Lines[1:]
		_, err = saga.StoredPlan(damaged)
		require.ErrorIs(s, err, saga.ErrCorrupt)
	})
}

// The items of an Each that has ended are begun: they must be the same, each with its call and its undo.
func TestMigrate_each(t *testing.T) {
	t.Parallel()
	define := func(number int, undo string, name func(order) string, calls bool) *saga.Definition[[]order, nothing] {
		return saga.MustDefine("many", number, func(b *saga.Builder[[]order, nothing]) {
			nap := saga.Sleep(b, "loan.begins", saga.Const(b, 24*time.Hour))
			if calls {
				nap.After(saga.EachFunc(b, "stock.hold", b.Input(), name, does[order](held{"h"})).UndoFunc(undo, undoes[order, held]()))
			}
			saga.StepFunc(b, "stock.lend", b.Input(), does[[]order](nothing{})).Pivot().After(nap)
		})
	}
	bySKU := func(o order) string { return o.SKU }
	for _, tt := range []struct {
		name   string
		to     *saga.Definition[[]order, nothing]
		expect []saga.MigrationProblem
	}{
		{"the same", define(2, "stock.release", bySKU, true), nil},
		{"other names", define(2, "stock.release", func(o order) string { return "x" + o.SKU }, true), []saga.MigrationProblem{{saga.MigrationRequest, "", ""}}},
		{"another undo", define(2, "stock.drop", bySKU, true), []saga.MigrationProblem{
			{saga.MigrationUndo, "stock.hold[*]", ""}, {saga.MigrationUndo, "stock.hold[a]", ""}, {saga.MigrationUndo, "stock.hold[b]", ""},
		}},
		{"none", define(2, "stock.release", bySKU, false), []saga.MigrationProblem{
			{saga.MigrationNoStep, "stock.hold[*]", ""}, {saga.MigrationNoStep, "stock.hold[a]", ""}, {saga.MigrationNoStep, "stock.hold[b]", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				before := define(1, "stock.release", bySKU, true)
				s.store(tt.to)
				e := s.openWith(s.journal, slow(before))
				_, err := before.Start(s.Context(), e, key(s.T, "k"), []order{{SKU: "a"}, {SKU: "b"}})
				require.NoError(s, err)
				id := s.asleep("k").ID
				_, moved, err := s.operator(s.journal, before).Migrate(s.Context(), id, tt.to, someone)
				require.Equal(s, tt.expect == nil, moved)
				if tt.expect != nil {
					require.Equal(s, tt.expect, problemsOf(s.T, err))
					return
				}
				require.NoError(s, err)
				s.openWith(s.journal, slow(tt.to))
				time.Sleep(25 * time.Hour)
				s.until("k", journal.Completed)
			})
		})
	}
}

// A saga that waits for a signal can be moved, and what it was sent is not lost: the other version must await it.
func TestMigrate_signals(t *testing.T) {
	t.Parallel()
	type verdict struct{ By, Why string }
	approval := func(number int, awaits func(b *saga.Builder[order, nothing]) saga.AnyStep) *saga.Definition[order, nothing] {
		return saga.MustDefine("approval", number, func(b *saga.Builder[order, nothing]) {
			hold := step(b, "stock.hold").UndoFunc("stock.release", undo)
			nap := saga.Sleep(b, "loan.begins", saga.Const(b, 24*time.Hour)).After(hold)
			lend := step(b, "stock.lend").Pivot().After(nap)
			if awaits != nil {
				lend.After(awaits(b))
			}
		})
	}
	decided := saga.NewSignal[decision]("order.approved")
	waits := func(b *saga.Builder[order, nothing]) saga.AnyStep { return saga.Await(b, decided) }
	other := func(b *saga.Builder[order, nothing]) saga.AnyStep {
		return saga.Await(b, saga.NewSignal[verdict]("order.approved"))
	}
	behind := func(b *saga.Builder[order, nothing]) saga.AnyStep {
		return saga.Await(b, decided).After(step(b, "stock.count").ReadOnly())
	}
	for _, tt := range []struct {
		name   string
		to     *saga.Definition[order, nothing]
		sent   bool
		expect []saga.MigrationProblem
	}{
		{"it waits", approval(2, waits), false, nil},
		{"it waits, and would not yet", approval(2, behind), false, []saga.MigrationProblem{{saga.MigrationUnfinished, "order.approved", ""}}},
		{"it waits, and would not", approval(2, nil), false, []saga.MigrationProblem{{saga.MigrationNoStep, "order.approved", ""}}},
		{"it was sent the value", approval(2, waits), true, nil},
		{"it was sent the value before it began, and would not wait", approval(2, nil), true, []saga.MigrationProblem{{saga.MigrationSignal, "order.approved", ""}}},
		{"it was sent another type before it began", approval(2, other), true, []saga.MigrationProblem{{saga.MigrationSignal, "order.approved", ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				before := approval(1, waits)
				s.store(before, tt.to)
				o := s.operator(s.journal)
				var id journal.ID
				if tt.sent {
					id = enqueue(s, before, "k", basket)
					require.NoError(s, decided.Send(s.Context(), o, id, decision{"ann"}))
				} else {
					e := s.openWith(s.journal, slow(before))
					_, err := before.Start(s.Context(), e, key(s.T, "k"), basket)
					require.NoError(s, err)
					id = s.asleep("k").ID
				}
				_, moved, err := o.Migrate(s.Context(), id, tt.to, someone)
				require.Equal(s, tt.expect == nil, moved)
				if tt.expect != nil {
					require.Equal(s, tt.expect, problemsOf(s.T, err))
					return
				}
				require.NoError(s, err)
				require.NoError(s, decided.Send(s.Context(), o, id, decision{"ann"}), "to the saga of the other version")
				s.openWith(s.journal, slow(tt.to))
				time.Sleep(25 * time.Hour)
				s.until("k", journal.Completed)
			})
		})
	}
}
