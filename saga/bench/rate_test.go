package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestMeasureRates(t *testing.T) {
	t.Parallel()
	e := effort{rounds: 1, turn: 20 * time.Millisecond, callers: []int{1, 8}}
	figures, err := measureRates(t.Context(), startTestCluster(t, nil), e, contenders)
	require.NoError(t, err)
	require.Len(t, figures, len(e.callers)*len(contenders))
	for i, f := range figures {
		require.Equal(t, fmt.Sprintf("%s, callers: %d", contenders[i%len(contenders)].name, e.callers[i/len(contenders)]), f.Name)
		for _, m := range f.Measures {
			if !strings.HasPrefix(m.Name, "CPU") { // its clock is too coarse for so little
				require.Positive(t, m.Value, "%s, %s", f.Name, m.Name)
			}
		}
	}
}

func TestRateFigures(t *testing.T) {
	t.Parallel()
	laps := func(rates ...float64) (all []lap) {
		for _, r := range rates {
			all = append(all, lap{rate: r, wait: time.Second, client: time.Millisecond, server: 2 * time.Millisecond})
		}
		return all
	}
	entrants := []*entrant{{contender: ourSteps}, {contender: dbosSteps}, {contender: workflows}}
	all := map[string][]lap{
		ourSteps.name:  laps(100, 400, 900),
		dbosSteps.name: laps(100, 100, 300),
		workflows.name: laps(10, 10, 30),
	}
	figures := rateFigures(entrants, all, 32)
	require.Len(t, figures, 3)
	require.Equal(t, []measure{
		{Name: "rate", Value: 400, Unit: "/s", Low: 100, High: 900},
		{Name: "wait", Value: 1000, Unit: "ms", Low: 1000, High: 1000},
		{Name: "CPU here", Value: 1, Unit: "ms", Low: 1, High: 1},
		{Name: "CPU of the server", Value: 2, Unit: "ms", Low: 2, High: 2},
		{Name: "by DBOS", Value: 3, Unit: "x", Low: 1, High: 4, Goal: benchkit.AtLeast(4)},
	}, figures[0].Measures)
	require.Len(t, figures[1].Measures, 4, "DBOS by itself says nothing")
	require.Equal(t, measure{Name: "by DBOS", Value: 0.1, Unit: "x", Low: 0.1, High: 0.1}, figures[2].Measures[4])
	figures[0].Judge()
	require.Equal(t, benchkit.TooShort, figures[0].Verdict)
	require.Nil(t, rateFigures(entrants, all, 256)[0].Measures[4].Goal, "256 callers are reported, and not judged")
}

// cannedEntrant is an entrant without a database. Each of its sagas uses the same processor time.
func cannedEntrant(name string, e *cannedEngine) *entrant {
	return &entrant{contender{name: name}, e, func(context.Context) (cpuTime, error) {
		each := int64(time.Millisecond)
		return cpuTime{client: time.Duration(e.runs.Load() * each), server: time.Duration(e.runs.Load() * 2 * each)}, nil
	}}
}

func TestContest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := effort{rounds: 3, turn: time.Second}
		quick := cannedEntrant("quick", &cannedEngine{pause: 100 * time.Millisecond})
		slow := cannedEntrant("slow", &cannedEngine{pause: 200 * time.Millisecond})
		laps, err := contest(t.Context(), e, 2, []*entrant{quick, slow})
		require.NoError(t, err)
		one := lap{rate: 20, wait: 100 * time.Millisecond, client: time.Millisecond, server: 2 * time.Millisecond}
		require.Equal(t, []lap{one, one, one}, laps["quick"])
		one.rate, one.wait = 10, 200*time.Millisecond
		require.Equal(t, []lap{one, one, one}, laps["slow"])

		broken := cannedEntrant("broken", &cannedEngine{err: errBroken})
		_, err = contest(t.Context(), e, 2, []*entrant{quick, broken})
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, "broken")
	})
}

// The entrants come first in turn, because each one affects the machine for the next one.
func TestContest_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks []string // one before and one after each turn
		var entrants []*entrant
		for _, name := range []string{"a", "b", "c"} {
			each := cannedEntrant(name, &cannedEngine{pause: time.Second})
			each.used = func(context.Context) (cpuTime, error) {
				looks = append(looks, name)
				return cpuTime{}, nil
			}
			entrants = append(entrants, each)
		}
		_, err := contest(t.Context(), effort{rounds: 2, turn: time.Second}, 1, entrants)
		require.NoError(t, err)
		require.Equal(t, "aabbcc"+"bbccaa"+"ccaabb", strings.Join(looks, ""))
	})
}

func TestTurn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		length time.Duration
		rate   float64
		sagas  int64
	}{
		{"whole sagas", 400 * time.Millisecond, 40, 16},
		{"the last one is finished, and its time counts", 310 * time.Millisecond, 40, 16},
		{"at least one each", time.Nanosecond, 40, 4},
		{"at least one each, even in no time", 0, 40, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &cannedEngine{pause: 100 * time.Millisecond}
				l, err := turn(t.Context(), cannedEntrant("it", e), 4, tt.length)
				require.NoError(t, err)
				require.InDelta(t, tt.rate, l.rate, 1e-9)
				require.Equal(t, e.pause, l.wait)
				require.Equal(t, tt.sagas, e.runs.Load())
			})
		})
	}
}
