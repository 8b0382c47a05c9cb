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
	require.Equal(t, benchkit.ExitOK, run(t.Context(), []string{"-short", "-json", "-run", "B1"}, &stdout, &stderr), stderr.String())
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
	require.Equal(t, benchkit.ExitNoVerdict, run(ctx, []string{"-run", "B1"}, &stdout, io.Discard))
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

var errBroken = errors.New("broken")
