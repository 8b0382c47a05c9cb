package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFigure_judge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		measures []measure
		want     verdict
	}{
		{"nothing to meet", []measure{{Value: 9}}, ""},
		{"met at the bound", []measure{{Value: 4, Goal: atMost(4)}, {Value: 99, Goal: atLeast(99)}}, good},
		{"too much", []measure{{Value: 4.1, Goal: atMost(4)}}, tooShort},
		{"too little", []measure{{Value: 98.9, Goal: atLeast(99)}}, tooShort},
		{"not below", []measure{{Value: 1, Goal: below(1)}}, tooShort},
		{"one of two", []measure{{Value: 5, Goal: atMost(4)}, {Value: 99, Goal: atLeast(99)}}, tooShort},
		{"the other", []measure{{Value: 4, Goal: atMost(4)}, {Value: 9, Goal: atLeast(99)}, {Value: 1}}, tooShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := figure{Measures: tt.measures}
			f.judge()
			require.Equal(t, tt.want, f.Verdict)
		})
	}
}

// canned is a bench that measures nothing and finds the value.
func canned(value float64) bench {
	return bench{"B0", "Canned", func(effort) string { return "None." }, func(context.Context, effort) ([]figure, error) {
		return []figure{{Name: "it", Measures: []measure{{Name: "time", Value: value, Unit: "ms", Low: 1, High: 12.345, Goal: below(5)}}}}, nil
	}}
}

func TestReport_write(t *testing.T) {
	t.Parallel()
	figures, err := canned(6.5).measure(t.Context(), brief)
	require.NoError(t, err)
	r := report{Machine: machine{"go1", "os", "cpu", 4}, Judged: true, Sections: []section{newSection(canned(0), brief, figures, true)}}
	require.True(t, r.short())

	var text bytes.Buffer
	require.NoError(t, r.write(&text, false))
	require.Equal(t, "go1, os, 4 cores, cpu\n\n## B0 Canned\n\nNone.\n\n| figure | value | goal | verdict |\n| --- | --- | --- | --- |\n"+
		"| it | time 6.5 ms (1–12.35) | time < 5 ms | SHORT |\n", text.String())

	text.Reset()
	require.NoError(t, r.write(&text, true))
	var again report
	require.NoError(t, json.Unmarshal(text.Bytes(), &again))
	require.Equal(t, r, again)
}

func TestNewSection_unjudged(t *testing.T) {
	t.Parallel()
	figures, err := canned(6.5).measure(t.Context(), brief)
	require.NoError(t, err)
	r := report{Sections: []section{newSection(canned(0), brief, figures, false)}}
	require.False(t, r.short())
	require.Empty(t, r.Sections[0].Figures[0].Verdict)
}

func TestReport_writeError(t *testing.T) {
	t.Parallel()
	r := report{Sections: []section{{Name: "B0"}}}
	for _, asJSON := range []bool{false, true} {
		require.ErrorIs(t, r.write(broken{}, asJSON), errBroken)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestRun_badFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "B7"}, {"-run", "B1,"}, {"B1"}, {"-fast"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitNoVerdict, run(t.Context(), args, io.Discard, &stderr), "%q", args)
		require.NotEmpty(t, stderr.String())
	}
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

func TestRun(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-short", "-json", "-run", "B4"}, &stdout, &stderr), stderr.String())
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.Len(t, r.Sections, 1)
	require.Len(t, r.Sections[0].Figures, len(hopCases))
	require.True(t, strings.HasPrefix(r.Sections[0].Figures[3].Name, "retry"))
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout bytes.Buffer
	require.Equal(t, exitNoVerdict, run(ctx, []string{"-run", "B4"}, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "B4")
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{3, 1, 9}, spreadOf([]float64{9, 3, 1}))
	require.Zero(t, spreadOf(nil))
	twice := &series{nanoseconds: []float64{2, 30, 8}}
	other := &series{nanoseconds: []float64{1, 10, 8}}
	require.Equal(t, spread{2, 1, 3}, twice.ratio(other))
	goal := atMost(2)
	require.Equal(t, []measure{
		{Name: "time by the other's", Value: 2, Unit: "x", Low: 1, High: 3, Goal: goal},
		{Name: "least time by the other's", Value: 2, Unit: "x"}, // 2 by 1, of whatever rounds
	}, twice.times("the other's", other, goal))
	waits := []time.Duration{4 * time.Millisecond, time.Millisecond, 3 * time.Millisecond, 2 * time.Millisecond}
	require.InDelta(t, 3, percentile(waits, 0.5), 0)
	require.InDelta(t, 4, percentile(waits, 1), 0)
	require.Zero(t, percentile(nil, 0.5))
}

func TestContest(t *testing.T) {
	t.Parallel()
	var turns int
	operations := []operation{
		{"counts", func() error { turns++; return nil }},
		{"fails", func() error { return errBroken }},
	}
	all, err := contest(3, time.Microsecond, 1, operations[:1])
	require.NoError(t, err)
	require.Len(t, all["counts"].nanoseconds, 3)
	require.Len(t, all["counts"].allocations, 3)
	require.Greater(t, turns, 3)
	_, err = contest(1, time.Microsecond, 2, operations[1:])
	require.ErrorIs(t, err, errBroken)
}
