package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, benchkit.ExitOK, program.Run(t.Context(), []string{"-short", "-json", "-run", "B4"}, &stdout, &stderr), stderr.String())
	var r benchkit.Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.Len(t, r.Sections, 1)
	require.Len(t, r.Sections[0].Figures, len(hopCases))
	require.True(t, strings.HasPrefix(r.Sections[0].Figures[3].Name, "retry"))
}

func TestSeries(t *testing.T) {
	t.Parallel()
	twice := &series{nanoseconds: []float64{2, 30, 8}}
	other := &series{nanoseconds: []float64{1, 10, 8}}
	require.Equal(t, spread{Median: 2, Low: 1, High: 3}, twice.ratio(other))
	goal := benchkit.AtMost(2)
	require.Equal(t, []measure{
		{Name: "time by the other's", Value: 2, Unit: "x", Low: 1, High: 3, Goal: goal},
		{Name: "least time by the other's", Value: 2, Unit: "x"}, // 2 by 1, of whatever rounds
	}, twice.times("the other's", other, goal))
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
