package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A bank is down until a test says otherwise. A call to it is retried after an hour.
type bank struct {
	up    atomic.Bool
	tries atomic.Int32
	packs atomic.Int32  // runs of the step beside it
	pack  chan struct{} // these end when it is closed
	end   func()        // closes it
}

func newBank() *bank {
	k := &bank{pack: make(chan struct{})}
	k.end = sync.OnceFunc(func() { close(k.pack) })
	return k
}

func (k *bank) try() error {
	k.tries.Add(1)
	if !k.up.Load() {
		return errors.New("no connection")
	}
	return nil
}

// transfer is a saga that transfers, beside a step that runs for as long as the test wants.
func (k *bank) transfer() *saga.Definition[order, nothing] {
	return saga.MustDefine("transfer", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(1000 * time.Hour)
		saga.StepFunc(b, "bank.transfer", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			return nothing{}, k.try()
		}).UndoFunc("bank.recall", undo).Retry(hourly)
		saga.StepFunc(b, "shop.pack", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			k.packs.Add(1)
			<-k.pack
			return nothing{}, nil
		}).UndoFunc("shop.unpack", undo).AttemptTimeout(500 * time.Hour)
	})
}

// recall is a saga that goes back, and has to recall a transfer.
func (k *bank) recall() *saga.Definition[order, nothing] {
	return saga.MustDefine("recall", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(1000 * time.Hour)
		sent := step(b, "bank.transfer").UndoFunc("bank.recall", func(context.Context, saga.UndoCall[order, nothing]) error {
			return k.try()
		}).Retry(hourly)
		saga.StepFunc(b, "shop.pack", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			return nothing{}, saga.Rejected(errors.New("sold out"))
		}).ReadOnly().After(sent)
	})
}

// hourly waits for an hour: half of a random wait.
var hourly = saga.RetryPolicy{Backoff: retry.Backoff{Base: 2 * time.Hour, Cap: 2 * time.Hour}}

// within waits for a lease, and for what follows from the look at its end.
func within(s *stage, what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(saga.DefaultLease + 2*time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if done() {
			return
		}
	}
	s.Fatalf("a lease later: not %s", what)
}

// A saga waits in the memory of an engine, since a call runs beside. It is tried within a lease,
// once, by that engine: nobody else takes it, and the call that runs beside goes on.
func TestRetryNow_inMemory(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			k := newBank()
			defer k.end() // also for a test that fails: the engine waits for its functions
			d := k.transfer()
			e := s.open(d)
			var desk desk = e
			if elsewhere {
				desk = s.operator(s.journal)
			}
			_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(time.Minute)
			before := s.read("k")
			require.EqualValues(s, 1, k.tries.Load())

			said := time.Now()
			r, err := desk.RetryNow(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			require.Equal(s, said, time.Now(), "there is nobody to wait for")
			require.Equal(s, []any{before.Fence, before.Engine, before.Revision + 1}, []any{r.Fence, r.Engine, r.Revision}, "it keeps its owner")
			within(s, "tried", func() bool { return k.tries.Load() == 2 })
			time.Sleep(10 * time.Minute)
			require.EqualValues(s, 2, k.tries.Load(), "one word is one try")

			k.up.Store(true)
			_, err = desk.RetryNow(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			within(s, "tried again", func() bool { return k.tries.Load() == 3 })
			k.end()
			within(s, "completed", func() bool { return s.read("k").Status == journal.Completed })
			require.EqualValues(s, 1, k.packs.Load(), "the step beside it was begun again")
			require.EqualValues(s, before.Fence, s.read("k").Fence)
			log, err := desk.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: s.id("k"), Limit: 10})
			require.NoError(s, err)
			require.Len(s, log, 2)
		})
	}
}

// The same for an undo. Its function makes a call, which no entry can hold: so its owner keeps it.
func TestRetryNow_ofAnUndo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		client, err := s.services.Client("mail")
		require.NoError(s, err)
		d := saga.MustDefine("recall", 1, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(1000 * time.Hour)
			sent := step(b, "bank.transfer").UndoFunc("bank.recall", func(ctx context.Context, _ saga.UndoCall[order, nothing]) error {
				if _, err := sdk.Call(ctx, client, notify, parcel{"t"}); err != nil {
					return err
				}
				return k.try()
			}).Retry(hourly)
			saga.StepFunc(b, "shop.pack", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("sold out"))
			}).ReadOnly().After(sent)
		})
		e := s.open(d)
		_, err = d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.Equal(s, journal.Compensating, s.read("k").Status)
		require.False(s, s.read("k").Engine.IsZero(), "it sleeps")
		k.up.Store(true)
		_, err = s.operator(s.journal).RetryNow(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		within(s, "compensated", func() bool { return s.read("k").Status == journal.Compensated })
		require.EqualValues(s, 2, k.tries.Load())
	})
}

// A saga waits in the journal, and no process drives it. The next engine that looks takes it.
func TestRetryNow_inTheJournal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		d := k.recall()
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.NoError(s, e.Close(s.Context()))
		require.Greater(s, s.read("k").WakeAt.Sub(s.read("k").Now), 50*time.Minute)
		s.open(d)
		time.Sleep(time.Minute)
		require.EqualValues(s, 1, k.tries.Load(), "nobody may take it yet")

		k.up.Store(true)
		r, err := s.operator(s.journal).RetryNow(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		require.False(s, r.WakeAt.After(r.Now))
		within(s, "compensated", func() bool { return s.read("k").Status == journal.Compensated })
		require.EqualValues(s, 2, k.tries.Load())
	})
}

// The engine dies before it has noticed. The word is not lost: the next owner tries at once.
func TestRetryNow_ownerDies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		defer k.end()
		d := k.transfer()
		j, cut := severable(s.journal)
		e := s.openOn(j, d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		cut.Store(true)
		k.up.Store(true)
		_, err = s.operator(s.journal).RetryNow(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		require.NoError(s, s.journal.Leave(s.Context(), s.read("k").Engine))
		s.open(d)
		within(s, "tried", func() bool { return k.tries.Load() == 2 })
	})
}

// Hundreds of sagas wait for one callee, and a script says of each that it is to be tried now.
func TestRetryNow_ofMany(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		defer k.end()
		d := k.transfer()
		e := s.open(d)
		const sagas = 350
		for n := range sagas {
			_, err := d.Start(s.Context(), e, key(s.T, fmt.Sprint("k-", n)), basket)
			require.NoError(s, err)
		}
		time.Sleep(time.Minute)
		k.up.Store(true)
		o := s.operator(s.journal)
		for n := range sagas {
			_, err := o.RetryNow(s.Context(), s.id(fmt.Sprint("k-", n)), someone)
			require.NoError(s, err)
		}
		within(s, "all tried", func() bool { return k.tries.Load() == 2*sagas })
	})
}

// An engine reads a saga again only while one of its calls waits, once per lease. The journal may be
// away meanwhile.
func TestRetryNow_theJournalIsAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		defer k.end()
		d := k.transfer()
		j := tap(s.journal)
		var away atomic.Bool
		j.before = func(method string, _ int) error {
			if method == "Read" && away.Load() {
				return errNoNetwork
			}
			return nil
		}
		e := s.openOn(j, d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(62 * time.Second)
		require.Equal(s, 4, j.count("Read"), "a look per lease")
		away.Store(true)
		k.up.Store(true)
		_, err = s.operator(s.journal).RetryNow(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.Positive(s, s.events.count(saga.EventJournalError))
		require.EqualValues(s, 1, k.tries.Load())
		away.Store(false)
		within(s, "tried", func() bool { return k.tries.Load() == 2 })
		asked := j.count("Read")
		time.Sleep(time.Hour)
		require.Equal(s, asked, j.count("Read"), "nothing waits any more")
	})
}

// A saga is tried within a lease also if its engine has something to write all the time.
func TestRetryNow_besideQuickSteps(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		d := saga.MustDefine("busy", 1, func(b *saga.Builder[order, nothing]) {
			b.UndoBudget(1000 * time.Hour)
			saga.StepFunc(b, "bank.transfer", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				return nothing{}, k.try()
			}).UndoFunc("bank.recall", undo).Retry(hourly)
			var last *saga.StepRef[order, nothing]
			for n := range 200 {
				quick := saga.StepFunc(b, fmt.Sprint("quick.s", n), b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					time.Sleep(500 * time.Millisecond)
					return nothing{}, nil
				}).UndoFunc(fmt.Sprint("quick.u", n), undo)
				if last != nil {
					quick.After(last)
				}
				last = quick
			}
		})
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(20 * time.Second)
		_, err = s.operator(s.journal).RetryNow(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		within(s, "tried", func() bool { return k.tries.Load() == 2 })
		require.Equal(s, journal.Running, s.read("k").Status)
	})
}

func TestRetryNow_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(s *stage, e *saga.Engine)
		text    string
	}{
		{"it is stuck", stuckUndo, "is stuck: only a running or compensating saga waits"},
		{"a call runs", slowHold, "is running: no call of it waits"},
		{"it is over", func(s *stage, e *saga.Engine) {
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
		}, "is completed: only"},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			e := s.open(checkout)
			tt.prepare(s, e)
			for _, desk := range []desk{e, s.operator(s.journal)} {
				r, err := desk.RetryNow(s.Context(), s.id("k"), someone)
				require.ErrorIs(s, err, saga.ErrConflict, tt.name)
				require.ErrorContains(s, err, tt.text, tt.name)
				require.Equal(s, s.read("k").Status, r.Status)
			}
			log, err := e.Reader().AuditPage(s.Context(), journal.AuditRequest{Limit: 1})
			require.NoError(s, err)
			require.Empty(s, log)
		})
	}
}

// The verb comes just before the owner gives the saga up, and the owner does not know of it. The
// saga does not sleep despite the verb.
func TestRetryNow_asTheSagaFallsAsleep(t *testing.T) {
	t.Parallel()
	for _, writes := range []int{0, 1} { // of the owner between the word and the sleep
		inBubble(t, func(s *stage) {
			k := newBank()
			defer k.end()
			more := make(chan struct{})
			endMore := sync.OnceFunc(func() { close(more) })
			defer endMore()
			d := saga.MustDefine("transfer", 1, func(b *saga.Builder[order, nothing]) {
				b.UndoBudget(1000 * time.Hour)
				saga.StepFunc(b, "bank.transfer", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					return nothing{}, k.try()
				}).UndoFunc("bank.recall", undo).Retry(hourly)
				saga.StepFunc(b, "shop.pack", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					<-k.pack
					return nothing{}, errors.New("no paper")
				}).UndoFunc("shop.unpack", undo).AttemptTimeout(500 * time.Hour).Retry(hourly)
				saga.StepFunc(b, "shop.weigh", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					<-more
					return nothing{}, nil
				}).UndoFunc("shop.unweigh", undo).AttemptTimeout(500 * time.Hour)
			})
			if writes == 0 {
				endMore()
			}
			e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Poll: 10 * time.Second})
			_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(62 * time.Second) // two seconds after a look at the saga
			require.EqualValues(s, 1, k.tries.Load())
			_, err = s.operator(blind(s.journal)).RetryNow(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			k.end()
			if writes > 0 {
				synctest.Wait()
				endMore()
			}
			time.Sleep(time.Minute)
			require.EqualValues(s, 2, k.tries.Load(), "tries after the word, with %d writes", writes)
			require.Zero(s, s.events.count(saga.EventTookOver), "it gave the saga up")
			r := s.asleep("k")
			require.Greater(s, r.WakeAt.Sub(r.Now), 50*time.Minute, "one word is one try")
		})
	}
}

// Where the record cannot be read, as without the key that it is sealed with, nobody knows what
// waits: it is not enough to wake the saga.
func TestRetryNow_ofWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		k := newBank()
		d := k.recall()
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		r := s.asleep("k")
		_, err = s.operator(unreadable{illegible{s.journal}}).RetryNow(s.Context(), r.ID, someone)
		require.ErrorIs(s, err, saga.ErrCorrupt)
		require.Equal(s, r.WakeAt, s.read("k").WakeAt)
	})
}

// unreadable is a journal that cannot read the entries either.
type unreadable struct{ illegible }

func (j unreadable) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	r, err := j.illegible.Read(ctx, id)
	r.Entries = nil
	return r, err
}
