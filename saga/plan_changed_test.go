package saga_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
)

// Each thing that makes a plan another one can be seen in the error, an order too.
func TestOpen_changedOrder(t *testing.T) {
	t.Parallel()
	plan := func(names ...string) *saga.Definition[order, nothing] {
		return saga.MustDefine("order", 1, func(b *saga.Builder[order, nothing]) {
			for _, name := range names {
				step(b, name).ReadOnly()
			}
		})
	}
	const head = "\n\tthe order of the steps is another one; the journal's is:"
	tests := []struct {
		name string
		now  *saga.Definition[order, nothing]
		text string
	}{
		{"another order", plan("a.a", "c.c", "b.b"), head + "\n\t1 a.a function read-only\n\t2 b.b function read-only\n\t3 c.c function read-only"},
		{"another step", plan("a.a", "b.b", "d.d"), "\n\t- c.c function read-only\n\t+ d.d function read-only"},
		{"another step, and order", plan("d.d", "b.b", "a.a"), "\n\t- c.c function read-only\n\t+ d.d function read-only" +
			head + "\n\t1 a.a function read-only\n\t2 b.b function read-only"},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			s.open(plan("a.a", "b.b", "c.c"))
			_, err := saga.Open(s.Context(), s.journal, saga.Config{Definitions: []saga.AnyDefinition{tt.now}})
			require.ErrorIs(s, err, saga.ErrPlanChanged, tt.name)
			require.EqualError(s, err, "saga: plan order version 1:\n\tplan changed under the same version; give it a new version:"+tt.text, tt.name)
		})
	}
}
