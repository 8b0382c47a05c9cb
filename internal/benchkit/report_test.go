package benchkit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

type measures = []benchkit.Measure

var atMost, atLeast = benchkit.AtMost, benchkit.AtLeast

func TestFigure_judge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		measures measures
		want     benchkit.Verdict
	}{
		{"nothing to meet", measures{{Value: 9}}, ""},
		{"met at the bound", measures{{Value: 4, Goal: atMost(4)}, {Value: 99, Goal: atLeast(99)}}, benchkit.Good},
		{"too much", measures{{Value: 4.1, Goal: atMost(4)}}, benchkit.TooShort},
		{"too little", measures{{Value: 98.9, Goal: atLeast(99)}}, benchkit.TooShort},
		{"not below", measures{{Value: 1, Goal: benchkit.Below(1)}}, benchkit.TooShort},
		{"one of two", measures{{Value: 5, Goal: atMost(4)}, {Value: 99, Goal: atLeast(99)}}, benchkit.TooShort},
		{"the other", measures{{Value: 4, Goal: atMost(4)}, {Value: 9, Goal: atLeast(99)}, {Value: 1}}, benchkit.TooShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := benchkit.Figure{Measures: tt.measures}
			f.Judge()
			require.Equal(t, tt.want, f.Verdict)
		})
	}
}

// canned is a section whose only figure has the value.
func canned(value float64) benchkit.Section {
	time := benchkit.Measure{Name: "time", Value: value, Unit: "ms", Low: 0.0123, High: 12.345, Goal: atMost(5)}
	return benchkit.Section{Name: "B0", Title: "Canned", Conditions: "None.", Figures: []benchkit.Figure{{Name: "it", Measures: measures{time}}}}
}

func TestReport_write(t *testing.T) {
	t.Parallel()
	const table = "| figure | value | goal | verdict | prototype |\n| --- | --- | --- | --- | --- |\n"
	r := benchkit.Report{Machine: benchkit.Machine{Go: "go1", OS: "os", CPU: "cpu", Cores: 4}, Judged: true}
	r.Add(canned(6.5))
	var text bytes.Buffer
	require.NoError(t, r.Write(&text, false))
	require.Equal(t, "go1, os, 4 cores, cpu\n\n## B0: Canned\n\nNone.\n\n"+table+
		"| it | time 6.5 ms (0.0123–12.35) | time ≤ 5 ms | SHORT |  |\n", text.String())

	r.Machine.Postgres, r.Machine.Redis, r.Rounds, r.LeftOut = "15", "7", "Rounds.", []string{"that"}
	r.Sections[0].Load, r.Sections[0].Others, r.Sections[0].Figures[0].Prototype = 1.25, 3.5, "5"
	r.Sections[0].Figures[0] = r.Sections[0].Figures[0].At("64 callers")
	text.Reset()
	require.NoError(t, r.Write(&text, false))
	require.Equal(t, "go1, os, 4 cores, cpu, Postgres 15, Redis 7\n\nRounds.\n\n## B0: Canned\n\n"+
		"None. Others took 4 % of the machine; load 1.2.\n\n"+table+
		"| it, 64 callers | time 6.5 ms (0.0123–12.35) | time ≤ 5 ms | SHORT | 5 |\n\nLeft out: that\n", text.String())

	text.Reset()
	require.NoError(t, r.Write(&text, true))
	var again benchkit.Report
	require.NoError(t, json.Unmarshal(text.Bytes(), &again))
	require.Equal(t, r, again)
}

func TestReport_finish(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		judged  bool
		leftOut []string
		value   float64
		err     error
		want    int
	}{
		{"short", true, nil, 6.5, nil, benchkit.ExitShort},
		{"met", true, nil, 4.5, nil, benchkit.ExitOK},
		{"met, one left out", true, []string{"it"}, 4.5, nil, benchkit.ExitShort},
		{"not judged", false, nil, 6.5, nil, benchkit.ExitOK},
		{"not judged, one left out", false, []string{"it"}, 6.5, nil, benchkit.ExitOK},
		{"failed", true, nil, 6.5, errBroken, benchkit.ExitNoVerdict},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := benchkit.Report{Judged: tt.judged, LeftOut: tt.leftOut}
			r.Add(canned(tt.value))
			var stdout bytes.Buffer
			require.Equal(t, tt.want, r.Finish(tt.err, &stdout, io.Discard, false))
			require.Contains(t, stdout.String(), "Canned", "what was measured before an error, too")
		})
	}
	for _, asJSON := range []bool{false, true} {
		var stderr bytes.Buffer
		r := benchkit.Report{}
		require.ErrorIs(t, r.Write(broken{}, asJSON), errBroken)
		require.Equal(t, benchkit.ExitNoVerdict, r.Finish(nil, broken{}, &stderr, asJSON))
		require.Equal(t, "bench: broken\n", stderr.String())
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	require.Equal(t, benchkit.ExitOK, benchkit.BadFlags(flag.ErrHelp, &stderr))
	require.Empty(t, stderr.String())
	require.Equal(t, benchkit.ExitNoVerdict, benchkit.BadFlags(errBroken, &stderr))
	require.Equal(t, "broken\n", stderr.String())
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
