package benchkit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// counted has two benches, which measure how much they are to do.
func counted() benchkit.Program[int] {
	bench := func(name string) benchkit.Bench[int] {
		return benchkit.Bench[int]{
			Name: name, Title: "Counted",
			Conditions: func(amount int) string { return fmt.Sprint("Amount ", amount, ".") },
			Measure: func(_ context.Context, amount int, on *benchkit.Machine) ([]benchkit.Figure, error) {
				on.Postgres = "15"
				return []benchkit.Figure{{Name: "it", Measures: measures{{Value: float64(amount), Goal: atMost(5)}}}}, nil
			},
		}
	}
	return benchkit.Program[int]{Benches: []benchkit.Bench[int]{bench("B1"), bench("B2")}, Full: 6, Brief: 1}
}

func TestProgram_badFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "B7"}, {"-run", "("}, {"B1"}, {"-fast"}} {
		var stderr bytes.Buffer
		require.Equal(t, benchkit.ExitNoVerdict, counted().Run(t.Context(), args, io.Discard, &stderr), "%q", args)
		require.NotEmpty(t, stderr.String())
	}
	require.Equal(t, benchkit.ExitOK, counted().Run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

func TestProgram_run(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		args  []string
		want  int
		value float64
		names []string
	}{
		{"all, judged", []string{"-json"}, benchkit.ExitShort, 6, []string{"B1", "B2"}},
		{"one, briefly", []string{"-json", "-short", "-run", "2"}, benchkit.ExitOK, 1, []string{"B2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, tt.want, counted().Run(t.Context(), tt.args, &stdout, &stderr), stderr.String())
			var r benchkit.Report
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
			require.Equal(t, "15", r.Machine.Postgres)
			var names []string
			for _, s := range r.Sections {
				names = append(names, s.Name)
				require.Equal(t, fmt.Sprint("Amount ", tt.value, "."), s.Conditions)
				require.InDelta(t, tt.value, s.Figures[0].Measures[0].Value, 0)
			}
			require.Equal(t, tt.names, names)
		})
	}
}

func TestProgram_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout bytes.Buffer
	require.Equal(t, benchkit.ExitNoVerdict, counted().Run(ctx, nil, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "B1")
}

func TestProgram_fails(t *testing.T) {
	t.Parallel()
	p := counted()
	p.Benches[1].Measure = func(context.Context, int, *benchkit.Machine) ([]benchkit.Figure, error) { return nil, errBroken }
	var stdout, stderr bytes.Buffer
	require.Equal(t, benchkit.ExitNoVerdict, p.Run(t.Context(), nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), "B2: broken")
	require.Contains(t, stdout.String(), "B1", "what was measured before")
}
