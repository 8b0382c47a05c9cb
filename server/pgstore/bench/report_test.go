package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
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

// cannedBench measures nothing and finds the value.
func cannedBench(value float64) bench {
	return bench{"it", "Canned", "None.", func(context.Context, *lab, effort) ([]figure, error) {
		return []figure{{Name: "it", Prototype: "5", Measures: []measure{{Name: "time", Value: value, Unit: "ms", Low: 1, High: 12.345, Goal: atMost(5)}}}}, nil
	}}
}

func TestReport_write(t *testing.T) {
	t.Parallel()
	r := report{Machine: machine{"go1", "os", "cpu", 4, "15", "7"}, Judged: true, Rounds: "Rounds."}
	require.NoError(t, r.add(t.Context(), new(lab), cannedBench(6.5), brief))
	r.LeftOut = []string{"that"}
	r.Sections[0].Load, r.Sections[0].Others = 1.25, 3.5
	require.True(t, r.short())

	var text bytes.Buffer
	require.NoError(t, r.write(&text, false))
	require.Equal(t, "go1, os, 4 cores, cpu, Postgres 15, Redis 7\n\nRounds.\n\n## it: Canned\n\nNone. Others took 4 % of the machine; load 1.2.\n\n"+
		"| figure | value | goal | verdict | prototype |\n| --- | --- | --- | --- | --- |\n"+
		"| it | time 6.5 ms (1–12.35) | time ≤ 5 ms | SHORT | 5 |\n\nLeft out: that\n", text.String())

	text.Reset()
	require.NoError(t, r.write(&text, true))
	var again report
	require.NoError(t, json.Unmarshal(text.Bytes(), &again))
	require.Equal(t, r, again)
}

func TestReport_short(t *testing.T) {
	t.Parallel()
	tests := []struct {
		judged  bool
		leftOut []string
		value   float64
		want    bool
	}{
		{true, nil, 6.5, true},
		{true, nil, 4.5, false},
		{true, []string{"it"}, 4.5, true},
		{false, nil, 6.5, false},
		{false, []string{"it"}, 6.5, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("judged %t, left out %d, value %g", tt.judged, len(tt.leftOut), tt.value), func(t *testing.T) {
			t.Parallel()
			r := report{Judged: tt.judged, LeftOut: tt.leftOut}
			require.NoError(t, r.add(t.Context(), new(lab), cannedBench(tt.value), brief))
			require.Equal(t, tt.want, r.short())
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestReport_writeError(t *testing.T) {
	t.Parallel()
	r := report{Sections: []section{{Name: "it"}}}
	for _, asJSON := range []bool{false, true} {
		require.ErrorIs(t, r.write(broken{}, asJSON), errBroken)
	}
}

func TestRun_badFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "nosuch"}, {"-run", "("}, {"alone"}, {"-fast"}, {"-profiles", "/no/such/folder"}, {"-profiles", "main.go"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitNoVerdict, run(t.Context(), args, io.Discard, &stderr), "%q", args)
		require.NotEmpty(t, stderr.String())
	}
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

// Not parallel: it sets the environment.
func TestRun_withoutRedis(t *testing.T) {
	t.Setenv("PATH", "")
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"-run", "redis-always|combined256", "-short"}, exitOK},
		{[]string{"-run", "redis-always|combined256"}, exitShort},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.want, run(t.Context(), tt.args, &stdout, &stderr), "%q", tt.args)
		for _, name := range []string{"redis-always", "combined256"} {
			require.Contains(t, stdout.String(), "Left out: "+name)
			require.Contains(t, stderr.String(), "left out: "+name)
		}
		require.Contains(t, stderr.String(), "install redis-server")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	profiles := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-short", "-json", "-run", "^cache$", "-profiles", profiles}, &stdout, &stderr), stderr.String())
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.NotEmpty(t, r.Machine.Postgres)
	require.Len(t, r.Sections, 1)
	require.Equal(t, "cache", r.Sections[0].Figures[0].Name)
	require.Positive(t, r.Sections[0].Figures[0].Measures[0].Value)
	require.FileExists(t, filepath.Join(profiles, "cache.pprof"))
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout bytes.Buffer
	require.Equal(t, exitNoVerdict, run(ctx, []string{"-run", "alone"}, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "alone")
}

// Whatever it is doing when the time is up, it ends, and says why.
func TestMeasureAll_tooLong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bench string
		limit time.Duration
	}{{"cache", time.Nanosecond}, {"combined64", 3 * time.Second}, {"contested", 5 * time.Second}} {
		t.Run(fmt.Sprint(tt.bench, " ", tt.limit), func(t *testing.T) {
			t.Parallel()
			opts, err := parseOptions([]string{"-short", "-run", "^" + tt.bench + "$"}, io.Discard)
			require.NoError(t, err)
			amount := opts.effort()
			require.Equal(t, 3*time.Minute, amount.limit)
			amount.limit, amount.slices, amount.contestedKeys = tt.limit, 1000, 10_000_000
			start := time.Now()
			r, err := measureAll(t.Context(), opts, amount, io.Discard)
			require.ErrorIs(t, err, errTooLong)
			require.ErrorContains(t, err, tt.limit.String())
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(start), time.Minute)
			require.Empty(t, r.Sections)
		})
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{3, 1, 9}, spreadOf([]float64{9, 3, 1}))
	require.Zero(t, spreadOf(nil))
	waits := []time.Duration{4, 1, 3, 2}
	require.Equal(t, time.Duration(3), percentile(waits, 0.5))
	require.Equal(t, time.Duration(4), percentile(waits, 1))
	require.Zero(t, percentile(nil, 0.5))
}
