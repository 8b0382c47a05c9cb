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

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestRun_badFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "B7"}, {"-run", "B1,"}, {"B1"}, {"-fast"}} {
		var stderr bytes.Buffer
		require.Equal(t, benchkit.ExitNoVerdict, run(t.Context(), args, io.Discard, &stderr), "%q", args)
		require.NotEmpty(t, stderr.String())
	}
	require.Equal(t, benchkit.ExitOK, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

func TestRun(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, benchkit.ExitOK, run(t.Context(), []string{"-short", "-json", "-run", "B4"}, &stdout, &stderr), stderr.String())
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
	require.Equal(t, benchkit.ExitNoVerdict, run(ctx, []string{"-run", "B4"}, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "B4")
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{3, 1, 9}, spreadOf([]float64{9, 3, 1}))
	require.Zero(t, spreadOf(nil))
	twice := &series{nanoseconds: []float64{2, 30, 8}}
	other := &series{nanoseconds: []float64{1, 10, 8}}
	require.Equal(t, spread{2, 1, 3}, twice.ratio(other))
	goal := benchkit.AtMost(2)
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

var errBroken = errors.New("broken")
