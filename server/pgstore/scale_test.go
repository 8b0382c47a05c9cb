package pgstore_test

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers of SCALE.md follow from its formulas.
func TestScale_arithmetic(t *testing.T) {
	t.Parallel()
	const a, keep, between, handler = 200.0, 86_400.0, 1_800.0, 0.01
	rates, processes := []float64{1_000, 30_000, 300_000}, []float64{4, 16, 64}
	x := between * 8192 / (keep * 54)
	small, pages := 1010+2*a, 5900*(1-math.Exp(-x))/x
	formulas := map[string]func(r, p float64) float64{
		"r·R":             func(r, _ float64) float64 { return r * keep },
		"r·R·(340+A)":     func(r, _ float64) float64 { return r * keep * (340 + a) },
		"r·R·54":          func(r, _ float64) float64 { return r * keep * 54 },
		"T·8192/(R·54)":   func(float64, float64) float64 { return x },
		"1010+2·A":        func(float64, float64) float64 { return small },
		"5900·(1-e^-x)/x": func(float64, float64) float64 { return pages },
		"r·log":           func(r, _ float64) float64 { return r * (small + pages) },
		"r·0.0001":        func(r, _ float64) float64 { return r * 0.0001 },
		"P·6":             func(_, p float64) float64 { return p * 6 },
		"P·6+r·H":         func(r, p float64) float64 { return p*6 + r*handler },
	}
	text, err := os.ReadFile("SCALE.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.Contains(cells[2], "`") {
			continue
		}
		formula := formulas[strings.Trim(cells[2], " `")]
		require.NotNil(t, formula, line)
		for i, rate := range rates {
			shown, want := quantity(t, cells[3+i]), formula(rate, processes[i])
			require.InEpsilon(t, want, shown, 0.05, line)
		}
		rows++
	}
	require.Equal(t, len(formulas)+1, rows, "one formula has two rows")
}

// quantity reads a number with its unit, such as "4.7 GB".
func quantity(t *testing.T, cell string) float64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(cell), " ")
	n, err := strconv.ParseFloat(number, 64)
	require.NoError(t, err)
	units := map[string]float64{"": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "million": 1e6, "billion": 1e9}
	require.Contains(t, units, unit)
	return n * units[unit]
}
