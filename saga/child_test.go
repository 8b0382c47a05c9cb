package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
)

// family returns a saga whose function runs a second one, in the engine that it is given. The function of the second
// one is work.
func family(work func(ctx context.Context) error, attempt time.Duration) (d, child *saga.Definition[order, nothing], in func(*saga.Engine)) {
	var e *saga.Engine
	child = saga.MustDefine("child", 1, func(b *saga.Builder[order, nothing]) {
		saga.StepFunc(b, "child.work", b.Input(), func(ctx context.Context, _ saga.Call[order]) (nothing, error) { return nothing{}, work(ctx) }).
			ReadOnly().AttemptTimeout(attempt)
	})
	d = saga.MustDefine("parent", 1, func(b *saga.Builder[order, nothing]) {
		saga.StepFunc(b, "parent.run", b.Input(), func(ctx context.Context, c saga.Call[order]) (nothing, error) {
			return child.Run(ctx, e, c.Key, c.Input)
		}).ReadOnly()
	})
	return d, child, func(opened *saga.Engine) { e = opened }
}

// A saga that waits for another one waits for as long as that takes. Its attempts are not used up.
func TestChild_takesLong(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d, child, in := family(func(context.Context) error {
			time.Sleep(3 * time.Hour)
			return nil
		}, 4*time.Hour)
		e := s.open(d, child)
		in(e)
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Less(s, time.Since(begun), 3*time.Hour+2*time.Minute)
		require.Equal(s, 1, s.read("k").Entries[0].Attempts)
	})
}

// An engine has one place, and a saga in it that waits for another one. That gets the place.
func TestChild_needsThePlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var e *saga.Engine
		child := saga.MustDefine("child", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "child.work", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil }).ReadOnly()
		})
		d := saga.MustDefine("parent", 1, func(b *saga.Builder[order, nothing]) {
			saga.StepFunc(b, "parent.run", b.Input(), func(ctx context.Context, c saga.Call[order]) (nothing, error) {
				req, err := child.Request(c.Key, c.Input)
				if err != nil {
					return nothing{}, err
				}
				if _, _, err = s.journal.Start(ctx, req); err != nil { // as a transaction does: no engine has it
					return nothing{}, err
				}
				return child.Run(ctx, e, c.Key, c.Input)
			}).ReadOnly()
		})
		e = s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d, child}, MaxActive: 1})
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Less(s, time.Since(begun), time.Minute)
	})
}
