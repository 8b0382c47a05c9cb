package saga_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A step that maps three values begins after the steps of all three.
func TestMap3_waitsForAllThree(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("three", 1, func(b *saga.Builder[order, string]) {
			step := func(name string) saga.Value[string] {
				return saga.StepFunc(b, name, b.Input(), func(_ context.Context, c saga.Call[order]) (string, error) {
					return name + " " + c.Input.SKU, nil
				}).ReadOnly().Output()
			}
			all := saga.Map3(step("a.one"), b.Input(), step("b.two"), func(one string, in order, two string) string {
				return fmt.Sprint(one, "; ", in.SKU, "; ", two)
			})
			last := saga.StepFunc(b, "z.last", all, func(_ context.Context, c saga.Call[string]) (string, error) {
				return c.Input, nil
			})
			saga.Return(b, last.Output())
		})
		out, err := d.Run(s.Context(), s.open(d), key(s.T, "three"), basket)
		require.NoError(s, err)
		require.Equal(s, fmt.Sprintf("a.one %[1]s; %[1]s; b.two %[1]s", basket.SKU), out)
	})
	for _, v := range []saga.Value[string]{
		saga.Map3(saga.Value[string]{}, saga.Value[string]{}, saga.Value[string]{}, func(string, string, string) string { return "" }),
		{},
	} {
		_, err := saga.Define("none", 1, func(b *saga.Builder[order, string]) { saga.Return(b, v) })
		require.ErrorIs(t, err, saga.ErrValue)
	}
}

// A network that delivers a request twice gives it one effect.
func TestRun_requestDeliveredTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Twice())
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "twice"), basket)
		require.NoError(s, err)
		s.wantEffects("payment.charge", 1, 0)
	})
}
