package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

// Each saga gets the signal of its own caller, and each signal has its delay.
func TestSignalled(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, nil)
	for _, contender := range signalled {
		e, err := contender.start(t.Context(), c)
		require.NoError(t, err, contender.name)
		const callers, each = 8, 3
		errs := make(chan error, callers)
		for caller := range callers {
			go func() {
				var err error
				for n := 0; n < each && err == nil; n++ {
					err = runOnce(t.Context(), e, 100*caller+n)
				}
				errs <- err
			}()
		}
		for range callers {
			require.NoError(t, <-errs, contender.name)
		}
		s, ok := e.engine.(*signalEngine)
		require.True(t, ok)
		delays := s.takeDelays()
		require.Len(t, delays, callers*each, contender.name)
		for _, delay := range delays {
			require.Positive(t, delay, contender.name)
		}
		require.Empty(t, s.takeDelays())
		require.Empty(t, s.open)
		require.NoError(t, end(t.Context(), e), contender.name)
	}
}

// We write the signal, a claim and the value. DBOS writes the end of the wait, the signal and its receipt, which is in a
// savepoint with an ID of its own. On a slow machine some signals come before the wait, which saves a write.
func TestMeasureCosts_ofSignalled(t *testing.T) {
	t.Parallel()
	figures, err := measureCosts(t.Context(), startTestCluster(t, costSettings), effort{costRounds: 3, costRuns: 10}, signalled)
	require.NoError(t, err)
	require.Len(t, figures, len(signalled))
	for i, writes := range []struct{ withoutWait, most float64 }{{steps + 1, steps + 1 + 3}, {5, 5 + 3 + 1}} {
		require.Equal(t, signalled[i].name, figures[i].Name)
		require.Greater(t, figures[i].Measures[1].Value, writes.withoutWait, figures[i].Name)
		require.LessOrEqual(t, figures[i].Measures[1].Value, writes.most+0.5, figures[i].Name)
	}
}

func TestMeasureRates_ofSignalled(t *testing.T) {
	t.Parallel()
	e := effort{rounds: 1, turn: 20 * time.Millisecond, callers: []int{4}}
	figures, err := measureRates(t.Context(), startTestCluster(t, nil), e, signalled)
	require.NoError(t, err)
	require.Len(t, figures, len(signalled))
	for _, f := range figures {
		delays := 0
		for _, m := range f.Measures {
			if strings.HasPrefix(m.Name, "signal") {
				require.Positive(t, m.Value, "%s, %s", f.Name, m.Name)
				delays++
			}
		}
		require.Equal(t, 2, delays, f.Name)
	}
}

// cannedSignals is a signalEngine without a database. The second step begins that long after the value was sent.
func cannedSignals(delay time.Duration, sendErr error) *signalEngine {
	known, values := newVisits(), make(chan int, 1)
	runAs := func(_ context.Context, _ childkey.Key, in int) (int, error) {
		if _, err := known.first(in); err != nil {
			return 0, err
		}
		answer := <-values
		time.Sleep(delay)
		out, err := known.second(answer)
		return increment(out), err
	}
	send := func(_ context.Context, _ childkey.Key, v int) error {
		values <- v
		time.Sleep(2 * delay) // Send may return late
		return sendErr
	}
	return &signalEngine{&cannedEngine{}, runAs, send, known}
}

func TestTurn_signal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cannedEntrant("it", nil)
		e.engine, e.used = cannedSignals(7*time.Millisecond, nil), func(context.Context) (cpuTime, error) { return cpuTime{}, nil }
		l, err := turn(t.Context(), e, 1, time.Second)
		require.NoError(t, err)
		require.Equal(t, 7*time.Millisecond, l.delay, "from the call of Send, and not from its end")
		require.Equal(t, 7*time.Millisecond, l.longDelay)
		require.Equal(t, pause+14*time.Millisecond, l.wait)
	})
}

// Who runs the saga hears of a signal that was not sent, and does not wait for the signal of a saga that failed.
func TestSignalEngine_fails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.ErrorIs(t, runOnce(t.Context(), cannedSignals(time.Millisecond, errBroken), 4), errBroken)
		failed := cannedSignals(time.Millisecond, nil)
		failed.runAs = func(context.Context, childkey.Key, int) (int, error) { return 0, errBroken }
		require.ErrorIs(t, runOnce(t.Context(), failed, 4), errBroken)
		require.Empty(t, failed.takeDelays())
	})
}
