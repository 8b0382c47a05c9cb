package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A desk is what people move sagas with.
type desk interface {
	Lookup(ctx context.Context, id journal.ID) (journal.Record, error)
	Reader() journal.Reader
	Stats(ctx context.Context) (journal.Stats, error)
	Sweep(ctx context.Context, limit int) (int, error)
	Retry(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	ForceOK(ctx context.Context, id journal.ID, step string, output any, by journal.Audit) (journal.Record, error)
	ForceRejected(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error)
	ForceUndone(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error)
	Cancel(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	Abandon(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
}

var (
	_ desk = (*saga.Engine)(nil)
	_ desk = (*saga.Operator)(nil)
)

func (s *stage) operator(j journal.Journal, definitions ...saga.AnyDefinition) *saga.Operator {
	s.Helper()
	o, err := saga.NewOperator(j, definitions...)
	require.NoError(s, err)
	return o
}

// openSlow opens an engine that looks around rarely, for tests in which hours pass.
func (s *stage) openSlow(definitions ...saga.AnyDefinition) *saga.Engine {
	s.Helper()
	return s.openWith(s.journal, saga.Config{Definitions: definitions, Poll: 10 * time.Second, Lease: time.Minute})
}

func TestNewOperator_badInput(t *testing.T) {
	t.Parallel()
	twin := saga.MustDefine("checkout", 1, func(b *saga.Builder[order, nothing]) { step(b, "a.a").ReadOnly() })
	var j *memjournal.Journal
	var none *saga.Definition[order, receipt]
	for _, tt := range []struct {
		name        string
		journal     journal.Journal
		definitions []saga.AnyDefinition
		text        string
	}{
		{"no journal", nil, nil, "journal"},
		{"a nil journal", j, nil, "journal"},
		{"nil", memjournal.New(), []saga.AnyDefinition{checkout, nil}, "number 2"},
		{"a nil definition", memjournal.New(), []saga.AnyDefinition{none}, "number 1"},
		{"not defined", memjournal.New(), []saga.AnyDefinition{&saga.Definition[order, receipt]{}}, "number 1"},
		{"two of one version", memjournal.New(), []saga.AnyDefinition{checkout, twin}, "checkout version 1 is there twice"},
	} {
		_, err := saga.NewOperator(tt.journal, tt.definitions...)
		require.ErrorIs(t, err, saga.ErrConfig, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
	}
	_, err := saga.NewOperator(memjournal.New(), checkout, checkout)
	require.NoError(t, err, "the same one twice does no harm")
}

// A move is a verb.
type move = func(ctx context.Context, o desk, id journal.ID) (journal.Record, error)

// An operator beside an engine sees what that drives, and what it decides the engine carries
// out. The operator itself drives nothing and has no lease.
func TestOperator(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(s *stage, e *saga.Engine)
		do      move
		end     journal.Status
	}{
		{"retry", downUndo, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.Retry(ctx, id, someone)
		}, journal.Compensated},
		{"force-ok", stuckMail, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.ForceOK(ctx, id, "mail.receipt", nothing{}, someone)
		}, journal.Completed},
		{"force-rejected", stuckPivot, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.ForceRejected(ctx, id, "shipping.book", someone)
		}, journal.Compensated},
		{"force-undone", stuckUndo, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.ForceUndone(ctx, id, "payment.charge", someone)
		}, journal.Compensated},
		{"cancel", slowHold, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.Cancel(ctx, id, someone)
		}, journal.Compensated},
		{"abandon", slowHold, func(ctx context.Context, o desk, id journal.ID) (journal.Record, error) {
			return o.Abandon(ctx, id, someone)
		}, journal.Abandoned},
	}
	moves := func(name, verb string, definitions []saga.AnyDefinition, prepare func(*stage, *saga.Engine), do move, end journal.Status) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				e := s.openSlow(checkout)
				prepare(s, e)
				s.services.ScriptUndo("payment.charge")
				j := tap(s.journal)
				o := s.operator(j, definitions...)
				seen, err := o.Reader().Browse(s.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Running, journal.Compensating, journal.Stuck}, Limit: 10})
				require.NoError(s, err)
				require.Len(s, seen, 1)
				got, err := do(s.Context(), o, seen[0].ID)
				require.NoError(s, err)
				s.until("k", end)
				after, err := o.Lookup(s.Context(), got.ID)
				require.NoError(s, err)
				require.Equal(s, end, after.Status)
				log, err := o.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: got.ID, Limit: 10})
				require.NoError(s, err)
				require.Equal(s, journal.Verb(verb), log[0].Verb)
				stats, err := o.Stats(s.Context())
				require.NoError(s, err)
				require.EqualValues(s, 1, stats.ByStatus[end])
				for _, method := range []string{"Plan", "Heartbeat", "Start", "Claim", "Append"} {
					require.Zero(s, j.count(method), method)
				}
				require.NoError(s, e.Close(s.Context()))
				time.Sleep(after.ExpiresAt.Sub(after.Now))
				n, err := o.Sweep(s.Context(), 10)
				require.NoError(s, err)
				require.Equal(s, 1, n)
			})
		})
	}
	for _, tt := range tests {
		moves(tt.name, tt.name, []saga.AnyDefinition{checkout}, tt.prepare, tt.do, tt.end)
		if tt.name != "force-ok" { // its output has a type
			moves(tt.name+" without a definition", tt.name, nil, tt.prepare, tt.do, tt.end)
		}
	}
}

// A planless journal keeps no plan, or another one.
type planless struct {
	journal.Journal

	plan journal.PlanRecord
	err  error
}

func (j planless) ReadPlan(context.Context, string, int) (journal.PlanRecord, error) {
	return j.plan, j.err
}

// Without the saga's definition an operator shows and abandons it, and retries what is stuck. The
// other verbs must know the plan, from the journal at least. The type of an output is not there.
func TestOperator_withoutDefinitions(t *testing.T) {
	t.Parallel()
	other := saga.MustDefine("checkout", 1, func(b *saga.Builder[order, nothing]) { step(b, "a.a").ReadOnly() })
	damaged := checkout.Plan()
	damaged.Lines = damaged.Lines[1:]
	inBubble(t, func(s *stage) {
		stuckUndo(s, s.openSlow(checkout))
		s.services.ScriptUndo("payment.charge", sagatest.Reject(422))
		refuses := func(want error, o *saga.Operator, verbs ...string) {
			for _, verb := range verbs {
				r, err := map[string]func() (journal.Record, error){
					"ForceOK": func() (journal.Record, error) {
						return o.ForceOK(s.Context(), s.id("k"), "payment.charge", charge{}, someone)
					},
					"ForceRejected": func() (journal.Record, error) {
						return o.ForceRejected(s.Context(), s.id("k"), "payment.charge", someone)
					},
					"ForceUndone": func() (journal.Record, error) {
						return o.ForceUndone(s.Context(), s.id("k"), "payment.charge", someone)
					},
					"Cancel": func() (journal.Record, error) { return o.Cancel(s.Context(), s.id("k"), someone) },
				}[verb]()
				require.ErrorIs(s, err, want, verb)
				require.Equal(s, journal.Stuck, r.Status, verb)
			}
		}
		refuses(saga.ErrNoDefinition, s.operator(s.journal), "ForceOK")
		refuses(saga.ErrNoDefinition, s.operator(s.journal, other), "ForceOK")
		plans := []string{"ForceRejected", "ForceUndone", "Cancel"}
		refuses(saga.ErrNoDefinition, s.operator(planless{s.journal, journal.PlanRecord{}, journal.ErrNotFound}), plans...)
		refuses(saga.ErrNoDefinition, s.operator(planless{s.journal, other.Plan(), nil}), plans...)
		refuses(saga.ErrCorrupt, s.operator(planless{s.journal, damaged, nil}), plans...)

		o := s.operator(s.journal)
		_, err := o.ForceUndone(s.Context(), s.id("k"), "shipping.booked", someone)
		require.ErrorIs(s, err, saga.ErrNoStep)
		_, err = o.ForceUndone(s.Context(), s.id("k"), "shipping.book", someone)
		require.ErrorIs(s, err, saga.ErrConflict, "a step without an undo")
		_, err = o.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict, "it goes back already")

		_, err = o.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		s.until("k", journal.Stuck)
		r, err := o.Abandon(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		require.Equal(s, saga.DefaultKeep, r.ExpiresAt.Sub(r.FinishedAt))
	})
}

// Past the pivot no verb takes a saga back, whoever knows the plan.
func TestOperator_pastThePivotWithoutDefinitions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		stuckMail(s, s.openSlow(checkout))
		o := s.operator(s.journal)
		_, err := o.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		require.ErrorContains(s, err, "past the point")
		_, err = o.ForceRejected(s.Context(), s.id("k"), "mail.receipt", someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		require.ErrorContains(s, err, "past the point")
	})
}

// downUndo plays a saga whose refund gets no answer, until it is stuck.
func downUndo(s *stage, e *saga.Engine) {
	s.Helper()
	s.services.Script("shipping.book", sagatest.Reject(409))
	s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Unavailable()))
	_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
	require.ErrorIs(s, err, saga.ErrStuck)
}

// direction is where a stuck saga went.
func direction(r journal.Record) journal.Status {
	if r.FailedAt.IsZero() {
		return journal.Running
	}
	return journal.Compensating
}

// sent counts the deliveries of a step's call and of its undo.
func (s *stage) sent(step string) (n int) {
	for _, d := range s.services.Deliveries() {
		if d.Step == step {
			n++
		}
	}
	return n
}

// stuckPivot plays a saga of which nobody can find out whether its pivot happened, until it
// is stuck.
func stuckPivot(s *stage, e *saga.Engine) {
	s.Helper()
	s.services.Script("shipping.book", sagatest.LoseRequest(), sagatest.Always(sagatest.Unavailable()))
	_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
	require.ErrorIs(s, err, saga.ErrStuck)
	require.Equal(s, journal.Running, direction(s.read("k")))
}

// Somebody found out that the call did not happen: nobody asks for it again, and nobody undoes
// it. The other steps are undone.
func TestForceRejected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(s *stage, e *saga.Engine)
		step    string
		effects map[string][2]int // done and undone
		failed  string            // step
	}{
		{"the pivot is unknown", stuckPivot, "shipping.book", map[string][2]int{
			"inventory.reserve": {1, 1}, "payment.charge": {1, 1}, "shipping.book": {0, 0}, "mail.receipt": {0, 0},
		}, "shipping.book"},
		// The callee says that it has no such charge: no other call would undo its effect.
		{"its undo is refused", func(s *stage, e *saga.Engine) {
			s.services.Script("payment.charge", sagatest.LoseRequest(), sagatest.Always(sagatest.Unavailable()))
			s.services.Script("inventory.reserve", sagatest.Reject(409))
			s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Reject(422)))
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck)
			require.Equal(s, journal.Compensating, direction(s.read("k")))
		}, "payment.charge", map[string][2]int{
			"inventory.reserve": {0, 0}, "payment.charge": {0, 0}, "shipping.book": {0, 0},
		}, "inventory.reserve"},
		// Engines died under it, so that nothing is written of any call.
		{"it is quarantined", func(s *stage, e *saga.Engine) {
			require.NoError(s, e.Close(s.Context()))
			enqueue(s, checkout, "k", basket)
			s.die(6, checkout.Plan().Hash, 1)
			e = s.openSlow(checkout)
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck)
			require.Empty(s, s.read("k").Entries)
		}, "inventory.reserve", map[string][2]int{
			"inventory.reserve": {0, 0}, "payment.charge": {1, 1}, "shipping.book": {0, 0},
		}, "inventory.reserve"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				tt.prepare(s, s.openSlow(checkout))
				e := s.openSlow(checkout)
				sent := s.sent(tt.step)
				r, err := e.ForceRejected(s.Context(), s.id("k"), tt.step, someone)
				require.NoError(s, err)
				require.True(s, r.Status.Active())
				_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.ErrorIs(s, err, retry.ErrRejected)
				var failed *saga.Error
				require.ErrorAs(s, err, &failed)
				require.Equal(s, tt.failed, failed.FailedStep)
				require.Empty(s, failed.Pending)
				require.Equal(s, sent, s.sent(tt.step), "it was sent again, or undone")
				for step, n := range tt.effects {
					s.wantEffects(step, n[0], n[1])
				}
				r = s.read("k")
				for _, entry := range r.Entries {
					require.False(s, entry.Pending, "%+v", entry)
					require.Equal(s, entry.Step == tt.step, entry.Forced == "ann", "%+v", entry)
				}
				_, err = e.ForceRejected(s.Context(), s.id("k"), tt.step, someone)
				require.ErrorIs(s, err, saga.ErrConflict, "it is over")
			})
		})
	}
}

// A person's decision on one step is kept when the saga gets stuck on another step, and is
// retried.
func TestForceRejected_isKept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.openSlow(checkout)
		stuckPivot(s, e)
		s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Unavailable()))
		_, err := e.ForceRejected(s.Context(), s.id("k"), "shipping.book", someone)
		require.NoError(s, err)
		r := s.until("k", journal.Stuck)
		require.Equal(s, "payment.charge", r.StuckOn.Step)
		sent := s.sent("shipping.book")
		s.services.ScriptUndo("payment.charge")
		_, err = e.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
		require.Equal(s, sent, s.sent("shipping.book"))
	})
	// It gets stuck again before any engine has compensated it.
	inBubble(t, func(s *stage) {
		e := s.openSlow(checkout)
		stuckPivot(s, e)
		require.NoError(s, e.Close(s.Context()))
		o := s.operator(s.journal, checkout)
		r, err := o.ForceRejected(s.Context(), s.id("k"), "shipping.book", someone)
		require.NoError(s, err)
		_, won, err := s.journal.Change(s.Context(), journal.Change{ID: r.ID, Revision: r.Revision, Status: journal.Stuck, By: someone})
		require.NoError(s, err)
		require.True(s, won)
		sent := s.sent("shipping.book")
		_, err = o.Retry(s.Context(), r.ID, someone)
		require.NoError(s, err)
		s.openSlow(checkout)
		s.until("k", journal.Compensated)
		require.Equal(s, sent, s.sent("shipping.book"))
	})
}

func TestForceRejected_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(s *stage, e *saga.Engine)
		step    string
		want    error
		text    string
	}{
		{"it is not stuck", slowHold, "inventory.reserve", saga.ErrConflict, "only a stuck saga's"},
		{"no such step", stuckPivot, "no.such", saga.ErrNoStep, "no.such"},
		{"it completed", stuckPivot, "payment.charge", saga.ErrConflict, "payment.charge completed"},
		{"it was never begun", stuckPivot, "mail.receipt", saga.ErrConflict, "mail.receipt was never begun"},
		{"it was rejected", stuckUndo, "shipping.book", saga.ErrConflict, "shipping.book was rejected already"},
		{"it is past its pivot", stuckMail, "mail.receipt", saga.ErrConflict, "past the point"},
		{"never begun, going back", func(s *stage, e *saga.Engine) {
			s.services.Script("inventory.reserve", sagatest.Reject(409))
			s.services.ScriptUndo("payment.charge", sagatest.Reject(422))
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck)
		}, "shipping.book", saga.ErrConflict, "never begun"},
		{"nobody can read it", func(s *stage, e *saga.Engine) {
			require.NoError(s, e.Close(s.Context()))
			id := enqueue(s, checkout, "k", basket)
			r := s.read("k")
			_, won, err := s.journal.Change(s.Context(), journal.Change{
				ID: id, Revision: r.Revision, Status: journal.Stuck, Entries: []journal.Entry{{Step: "no.such"}}, By: someone,
			})
			require.NoError(s, err)
			require.True(s, won)
		}, "payment.charge", saga.ErrCorrupt, "no.such"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				tt.prepare(s, s.openSlow(checkout))
				before := s.read("k")
				for _, o := range []desk{s.operator(s.journal, checkout), s.openSlow(checkout)} {
					_, err := o.ForceRejected(s.Context(), s.id("k"), tt.step, someone)
					require.ErrorIs(s, err, tt.want)
					require.ErrorContains(s, err, tt.text)
				}
				require.Equal(s, before.Revision, s.read("k").Revision)
			})
		})
	}
}

// A saga that an operator abandons is kept for the retention of engines. After that the key
// starts the saga again.
func TestOperator_keep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		o := s.operator(s.journal)
		const keep = 90 * 24 * time.Hour
		long, err := o.WithKeep(keep)
		require.NoError(s, err)
		for i, o := range []*saga.Operator{o, long} {
			name := []string{"default", "long"}[i]
			id := enqueue(s, checkout, name, basket)
			r, err := o.Abandon(s.Context(), id, someone)
			require.NoError(s, err)
			require.Equal(s, []time.Duration{saga.DefaultKeep, keep}[i], r.ExpiresAt.Sub(r.FinishedAt), name)
		}
		for _, bad := range []time.Duration{0, -1, saga.MaxDuration + 1} {
			_, err := o.WithKeep(bad)
			require.ErrorIs(s, err, saga.ErrConfig)
			require.ErrorContains(s, err, "Keep")
		}
	})
}
