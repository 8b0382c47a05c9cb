package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, benchkit.ExitOK, program.Run(t.Context(), []string{"-short", "-json", "-run", "B1"}, &stdout, &stderr), stderr.String())
	var r benchkit.Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.NotEmpty(t, r.Machine.Postgres)
	require.Len(t, r.Sections, 1)
	require.Len(t, r.Sections[0].Figures, len(contenders))
	require.True(t, strings.HasPrefix(r.Sections[0].Figures[0].Name, "saga"))
}

func TestSpread(t *testing.T) {
	t.Parallel()
	rates := func(values ...float64) (laps []lap) {
		for _, v := range values {
			laps = append(laps, lap{rate: v})
		}
		return laps
	}
	require.Equal(t, spread{Median: 3, Low: 1, High: 9}, spreadOf(rates(9, 3, 1), lap.perSecond))
	require.Zero(t, spreadOf(nil, lap.perSecond))
	require.Equal(t, spread{Median: 2, Low: 1, High: 3}, ratios(rates(2, 30, 8), rates(1, 10, 8), lap.perSecond))
}

var errBroken = errors.New("broken")
