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
	return bench{"B0", "Canned", func(effort) string { return "None." }, nil, func(context.Context, *cluster, effort) ([]figure, error) {
		return []figure{{Name: "it", Measures: []measure{{Name: "time", Value: value, Unit: "ms", Low: 1, High: 12.345, Goal: below(5)}}}}, nil
	}}
}

func TestReport_write(t *testing.T) {
	t.Parallel()
	figures, err := canned(6.5).measure(t.Context(), nil, brief)
	require.NoError(t, err)
	r := report{Machine: machine{"go1", "os", "cpu", 4, "15"}, Judged: true, Sections: []section{newSection(canned(0), brief, figures, true)}}
	require.True(t, r.short())

	var text bytes.Buffer
	require.NoError(t, r.write(&text, false))
	require.Equal(t, "go1, os, 4 cores, cpu, Postgres 15\n\n## B0 Canned\n\nNone.\n\n| figure | value | goal | verdict |\n| --- | --- | --- | --- |\n"+
		"| it | time 6.5 ms (1–12.35) | time < 5 ms | SHORT |\n", text.String())

	text.Reset()
	require.NoError(t, r.write(&text, true))
	var again report
	require.NoError(t, json.Unmarshal(text.Bytes(), &again))
	require.Equal(t, r, again)
}

func TestNewSection_unjudged(t *testing.T) {
	t.Parallel()
	figures, err := canned(6.5).measure(t.Context(), nil, brief)
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
	require.Equal(t, exitOK, run(t.Context(), []string{"-short", "-json", "-run", "B1"}, &stdout, &stderr), stderr.String())
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.NotEmpty(t, r.Machine.Postgres)
	require.Len(t, r.Sections, 1)
	require.Len(t, r.Sections[0].Figures, len(contenders))
	require.True(t, strings.HasPrefix(r.Sections[0].Figures[0].Name, "saga"))
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout bytes.Buffer
	require.Equal(t, exitNoVerdict, run(ctx, []string{"-run", "B1"}, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "B1")
}

func TestSpread(t *testing.T) {
	t.Parallel()
	rates := func(values ...float64) (laps []lap) {
		for _, v := range values {
			laps = append(laps, lap{rate: v})
		}
		return laps
	}
	require.Equal(t, spread{3, 1, 9}, spreadOf(rates(9, 3, 1), lap.perSecond))
	require.Zero(t, spreadOf(nil, lap.perSecond))
	require.Equal(t, spread{2, 1, 3}, ratios(rates(2, 30, 8), rates(1, 10, 8), lap.perSecond))
	require.Equal(t, 2*time.Second, median([]time.Duration{4 * time.Second, time.Second, 2 * time.Second}))
	require.Zero(t, median(nil))
	require.InDelta(t, 1.5, inMilliseconds(1500*time.Microsecond), 0)
}
