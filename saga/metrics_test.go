package saga_test

import (
	"context"
	"encoding/json"
	"expvar"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

var (
	_ saga.Observer = (*saga.Metrics)(nil)
	_ expvar.Var    = (*saga.Metrics)(nil)
)

func TestMetrics_sagas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		metrics := saga.NewMetrics()
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: metrics})
		run := func(text string) {
			_, _ = checkout.Run(s.Context(), e, key(s.T, text), basket)
		}
		pass := sagatest.Pass()
		lost := slices.Repeat([]sagatest.Fault{sagatest.LoseAnswer()}, retry.DefaultMaxAttempts) // to each attempt of one try
		s.services.Script("payment.charge", append([]sagatest.Fault{pass, sagatest.Reject(402)}, lost...)...)
		s.services.Script("shipping.book", pass, pass, sagatest.Reject(409), sagatest.Reject(409))
		s.services.ScriptUndo("payment.charge", sagatest.Reject(422), sagatest.Reject(422))
		for _, text := range []string{"completes", "completes", "compensates", "unknown-for-a-while", "stuck-1", "stuck-2"} {
			run(text)
		}
		_, err := e.ForceUndone(s.Context(), s.id("stuck-1"), "payment.charge", someone)
		require.NoError(s, err)
		s.until("stuck-1", journal.Compensated)
		_, err = e.Abandon(s.Context(), s.id("stuck-2"), someone)
		require.NoError(s, err)
		enqueue(s, checkout, "enqueued", basket)
		s.until("enqueued", journal.Completed)

		got := metrics.Snapshot()
		counts := got.Sagas["checkout"]
		tries := counts.Attempts
		counts.Attempts = 0
		require.Equal(s, saga.Counts{
			Started: 6, Failed: 3, Completed: 3, Compensated: 2, Stuck: 2, Resumed: 1, Abandoned: 1, UnknownAttempts: 1,
		}, counts)
		require.Greater(s, tries, counts.UnknownAttempts)
		require.Len(s, got.Sagas, 1)
		got.Sagas = nil
		require.Zero(s, got, "a verb sets a saga going whose entries are complete: that is no take-over")

		var text map[string]any
		require.NoError(s, json.Unmarshal([]byte(metrics.String()), &text))
		require.EqualValues(s, 6, text["sagas"].(map[string]any)["checkout"].(map[string]any)["started"])
	})
}

// The metrics count events of the engine itself.
func TestMetrics_engine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j, cut := severable(s.journal)
		s.services.Script("inventory.reserve", sagatest.Slow(20*time.Second))
		first, second := saga.NewMetrics(), saga.NewMetrics()
		e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: first})
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		cut.Store(true)
		s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: second})
		s.until("k", journal.Completed)
		cut.Store(false)
		time.Sleep(time.Minute)
		got := first.Snapshot()
		require.EqualValues(s, 1, got.LeasesLost)
		require.Positive(s, got.JournalErrors)
		require.Zero(s, got.TookOver)
		require.Zero(s, got.Sagas["checkout"].Completed)
		got = second.Snapshot()
		require.EqualValues(s, 1, got.TookOver)
		require.EqualValues(s, 1, got.Sagas["checkout"].Completed)
		require.Zero(s, got.Sagas["checkout"].Started)
	})
}

// An owner that a person in another process took the saga from is refused its next write.
func TestMetrics_writesRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		metrics := saga.NewMetrics()
		s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second))
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: metrics})
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		elsewhere := saga.NewMetrics()
		person := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: elsewhere})
		_, err = person.Abandon(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.EqualValues(s, 1, metrics.Snapshot().WritesRefused)
		require.EqualValues(s, 1, elsewhere.Snapshot().Sagas["checkout"].Abandoned)
	})
}

// The number of deferred sagas is a gauge: it falls again.
func TestMetrics_deferred(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		enqueue(s, checkout, "old", basket)
		next := saga.MustDefine("checkout", 2, shop)
		metrics := saga.NewMetrics()
		s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{next}, Observer: metrics})
		time.Sleep(5 * time.Minute)
		require.EqualValues(s, 1, metrics.Snapshot().Deferred)
		s.open(checkout, next)
		s.until("old", journal.Completed)
		time.Sleep(5 * time.Minute)
		require.Zero(s, metrics.Snapshot().Deferred)
	})
}

func TestMetrics_panics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("bad", 1, func(b *saga.Builder[order, nothing]) {
			b.Timeout(time.Second)
			b.UndoBudget(4 * time.Second)
			saga.StepFunc(b, "a.do", b.Input(), panicsForward).UndoFunc("a.undo", undo)
		})
		metrics := saga.NewMetrics()
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Observer: metrics})
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		got := metrics.Snapshot()
		require.Positive(s, got.Panics)
		require.Equal(s, got.Panics, got.Sagas["bad"].UnknownAttempts)
	})
}

// Many goroutines count, the zero Metrics too, and none of it is lost.
func TestMetrics_concurrently(t *testing.T) {
	t.Parallel()
	var metrics saga.Metrics
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				metrics.Observe(context.Background(), saga.Event{Kind: saga.EventMoved, Name: "a", To: journal.Running})
				metrics.Observe(context.Background(), saga.Event{Kind: saga.EventAttempt, Name: "b"})
				metrics.Observe(context.Background(), saga.Event{Kind: saga.EventTookOver, Count: 2})
				_ = metrics.String()
			}
		})
	}
	wg.Wait()
	got := metrics.Snapshot()
	require.EqualValues(t, 8000, got.Sagas["a"].Started)
	require.EqualValues(t, 8000, got.Sagas["b"].Attempts)
	require.EqualValues(t, 16000, got.TookOver)
}
