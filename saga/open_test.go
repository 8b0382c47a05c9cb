package saga_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A beating journal remembers whose beats arrived at it, and lets a test fail them.
type beating struct {
	journal.Journal
	beat func(ctx context.Context, n int, arrives func() error) error // n counts from 1

	mu      sync.Mutex
	engines []journal.EngineID // of each attempt
}

func (b *beating) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	b.mu.Lock()
	b.engines = append(b.engines, engine)
	n := len(b.engines)
	b.mu.Unlock()
	return b.beat(ctx, n, func() error { return b.Journal.Heartbeat(ctx, engine, lease) })
}

// The first heartbeat is repeated, whatever became of it before: it was lost on its way, its
// answer was lost, or it took too long.
func TestOpen_repeatsTheFirstBeat(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(saga.ErrFateUnknown, ctx.Err())
	}
	tests := []struct {
		name  string
		fail  func(ctx context.Context, arrives func() error) error
		times int
	}{
		{"does not arrive", func(context.Context, func() error) error { return errNoNetwork }, 30},
		{"its answer is lost", func(_ context.Context, arrives func() error) error {
			return errors.Join(saga.ErrFateUnknown, arrives())
		}, 4},
		{"it is slow", func(ctx context.Context, _ func() error) error { return hang(ctx) }, 3},
		{"its answer is slow", func(ctx context.Context, arrives func() error) error { return errors.Join(arrives(), hang(ctx)) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				j := &beating{Journal: s.journal}
				j.beat = func(ctx context.Context, n int, arrives func() error) error {
					if n <= tt.times {
						return tt.fail(ctx, arrives)
					}
					return arrives()
				}
				e := s.openOn(j, checkout)
				require.Len(s, j.engines, tt.times+1)
				require.Equal(s, j.engines[0], j.engines[tt.times], "a lease that nobody has was left behind")
				require.Equal(s, tt.times, s.events.count(saga.EventJournalError), "told of each failure")
				_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
			})
		})
	}
}

// The answers are lost for so long that the lease of the first beat ends. That lease does not
// come back, so the engine begins another one.
func TestOpen_firstLeaseEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j := &beating{Journal: s.journal}
		begun := time.Now()
		j.beat = func(_ context.Context, n int, arrives func() error) error {
			switch {
			case n == 1:
				return errors.Join(saga.ErrFateUnknown, arrives())
			case time.Since(begun) < 2*saga.DefaultLease:
				return errNoNetwork
			}
			return arrives()
		}
		e := s.openOn(j, checkout)
		require.NotEqual(s, j.engines[0], j.engines[len(j.engines)-1])
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

// A plan is stored once the journal is there, and may have been stored before.
func TestOpen_repeatsThePlan(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			j := tap(s.journal)
			fail := func(method string, n int) error {
				if method == "Plan" && n <= 3 {
					return saga.ErrFateUnknown
				}
				return nil
			}
			if arrives {
				j.after = fail
			} else {
				j.before = fail
			}
			e := s.openOn(j, checkout)
			require.Equal(s, 4, j.count("Plan"))
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
		})
	}
}

// A journal that never answers keeps Open for as long as its ctx lasts, and no longer. The
// error says both.
func TestOpen_ctxEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("told to stop")
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	refusing := func(context.Context) error { return errNoNetwork }
	for name, answer := range map[string]func(context.Context) error{"silent": silent, "refusing": refusing} {
		for _, method := range []string{"Plan", "Heartbeat"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(s *stage) {
					ctx, cancel := context.WithCancelCause(s.Context())
					time.AfterFunc(time.Hour, func() { cancel(why) })
					j := &away{Journal: memjournal.New(), method: method, answer: answer}
					client, err := s.services.Client("inventory", "payment", "shipping", "mail")
					require.NoError(s, err)
					begun := time.Now()
					_, err = saga.Open(ctx, j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{checkout}, Observer: s.events})
					require.Equal(s, time.Hour, time.Since(begun).Truncate(time.Second))
					require.ErrorIs(s, err, context.Canceled)
					require.Greater(s, s.events.count(saga.EventJournalError), 500)
					if name == "refusing" {
						require.ErrorIs(s, err, why)
						require.ErrorIs(s, err, errNoNetwork)
						require.Less(s, s.events.count(saga.EventJournalError), 3700, "about once a second")
					}
				})
			})
		}
	}
}

// An away journal gives one method's callers an answer of the test's.
type away struct {
	journal.Journal
	method string
	answer func(ctx context.Context) error
}

func (a *away) Plan(ctx context.Context, plan journal.PlanRecord) (journal.PlanRecord, error) {
	if a.method == "Plan" {
		return journal.PlanRecord{}, a.answer(ctx)
	}
	return a.Journal.Plan(ctx, plan)
}

func (a *away) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	if a.method == "Heartbeat" {
		return a.answer(ctx)
	}
	return a.Journal.Heartbeat(ctx, engine, lease)
}

// Open returns an error at once if repetition does not change it.
func TestOpen_refused(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{saga.ErrRefused, saga.ErrCorrupt, memjournal.ErrArgument} {
		for _, method := range []string{"Plan", "Heartbeat"} {
			inBubble(t, func(s *stage) {
				calls := 0
				j := &away{Journal: s.journal, method: method, answer: func(context.Context) error { calls++; return refusal }}
				client, err := s.services.Client("inventory", "payment", "shipping", "mail")
				require.NoError(s, err)
				_, err = saga.Open(s.Context(), j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{checkout}})
				require.ErrorIs(s, err, refusal)
				require.Equal(s, 1, calls)
			})
		}
	}
}

// Open returns an error of the configuration before it asks the journal, which may be down.
func TestOpen_badConfigWhileTheJournalIsDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		client, err := s.services.Client("inventory", "payment", "mail")
		require.NoError(s, err)
		j, cut := severable(s.journal)
		cut.Store(true)
		fine := saga.MustDefine("fine", 1, func(b *saga.Builder[order, nothing]) { step(b, "a.a").ReadOnly() })
		for _, bad := range []saga.AnyDefinition{nil, &saga.Definition[order, receipt]{}, checkout} {
			_, err = saga.Open(s.Context(), j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{fine, bad}})
			require.ErrorIs(s, err, saga.ErrConfig)
		}
		require.Zero(s, j.count("Plan"))
		require.Zero(s, j.count("Heartbeat"))
	})
}

// Functions need no client. An operation does, also where it only undoes a function.
func TestOpen_withoutAClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		functions := saga.MustDefine("functions", 1, func(b *saga.Builder[order, nothing]) {
			step(b, "a.do").UndoFunc("a.undo", undo)
		})
		e, err := saga.Open(s.Context(), s.journal, saga.Config{Definitions: []saga.AnyDefinition{functions}})
		require.NoError(s, err)
		_, err = functions.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.NoError(s, e.Close(s.Context()))

		undone := saga.MustDefine("undone", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "payment.own", b.Input(), func(context.Context, saga.Call[order]) (charge, error) {
				return charge{}, nil
			}).Undo(refund)
		})
		cfg := saga.Config{Definitions: []saga.AnyDefinition{undone}}
		_, err = saga.Open(s.Context(), s.journal, cfg)
		require.ErrorIs(s, err, saga.ErrConfig)
		require.ErrorContains(s, err, "Client: nil, and undone version 1 has the operation payment.refund")
		cfg.Client, err = s.services.Client("inventory")
		require.NoError(s, err)
		_, err = saga.Open(s.Context(), s.journal, cfg)
		require.ErrorIs(s, err, saga.ErrConfig)
		require.ErrorContains(s, err, "undone version 1: step payment.own")
	})
}
