package saga_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// BenchmarkRun is what the engine itself costs: three functions one after the
// other that do nothing, and a journal in memory.
func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	noop := func(context.Context, saga.Call[int]) (int, error) { return 1, nil }
	d := saga.MustDefine("noop", 1, func(b *saga.Builder[int, int]) {
		one := saga.StepFunc(b, "a.one", b.Input(), noop).Irreversible()
		two := saga.StepFunc(b, "a.two", one.Output(), noop).Irreversible()
		three := saga.StepFunc(b, "a.three", two.Output(), noop).Irreversible()
		saga.Return(b, three.Output())
	})
	e, err := saga.Open(b.Context(), memjournal.New(), saga.Config{Definitions: []saga.AnyDefinition{d}})
	require.NoError(b, err)
	defer func() { require.NoError(b, e.Close(context.Background())) }()
	n := 0
	for b.Loop() {
		n++
		key, err := childkey.Parse("k-" + strconv.Itoa(n))
		require.NoError(b, err)
		if _, err := d.Run(b.Context(), e, key, n); err != nil {
			b.Fatal(err)
		}
	}
}
