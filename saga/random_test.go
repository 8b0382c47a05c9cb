package saga_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
)

// A forest is a random saga of functions, and what they did.
type forest struct {
	mu     sync.Mutex
	random *rand.Rand
	done   []bool // by step
	undone []bool
	after  [][]int
	wrong  []string
}

// step declares step i: it fails sometimes for now, and sometimes for good.
func (f *forest) step(b *saga.Builder[int, nothing], i int) *saga.StepRef[int, nothing] {
	fate := f.random.IntN(10)
	tries := 0
	s := saga.StepFunc(b, fmt.Sprintf("s%d.do", i), b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, before := range f.after[i] {
			if !f.done[before] || f.undone[before] {
				f.wrong = append(f.wrong, fmt.Sprintf("%d ran before %d was done", i, before))
			}
		}
		tries++
		switch {
		case fate == 0:
			return nothing{}, saga.Rejected(errors.New("no"))
		case fate < 3 && tries == 1:
			return nothing{}, errors.New("who knows")
		case fate < 5 && tries == 1:
			f.done[i] = true
			return nothing{}, errors.New("who knows")
		}
		f.done[i] = true
		return nothing{}, nil
	})
	return s.UndoFunc(fmt.Sprintf("s%d.undo", i), func(context.Context, saga.UndoCall[int, nothing]) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for other, after := range f.after {
			for _, before := range after {
				if before == i && f.done[other] && !f.undone[other] {
					f.wrong = append(f.wrong, fmt.Sprintf("%d was undone before %d", i, other))
				}
			}
		}
		f.undone[i] = true
		return nil
	})
}

// Random graphs with random failures: every step runs after those before it,
// every undo after those of the steps behind it, and in the end all is done or
// nothing is.
func TestRun_randomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		inBubble(t, func(s *stage) {
			random := rand.New(rand.NewPCG(seed, 1))
			n := 2 + random.IntN(8)
			f := &forest{random: random, done: make([]bool, n), undone: make([]bool, n), after: make([][]int, n)}
			d := saga.MustDefine("forest", 1, func(b *saga.Builder[int, nothing]) {
				b.MaxParallel(1 + random.IntN(4))
				refs := make([]saga.AnyStep, n)
				for i := range n {
					for before := range i {
						if random.IntN(3) == 0 {
							f.after[i] = append(f.after[i], before)
						}
					}
					ref := f.step(b, i)
					for _, before := range f.after[i] {
						ref.After(refs[before])
					}
					refs[i] = ref
				}
			})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
			require.Empty(s, f.wrong, "seed %d", seed)
			for i := range n {
				if err == nil {
					require.True(s, f.done[i] && !f.undone[i], "seed %d: step %d of a completed saga", seed, i)
					continue
				}
				require.ErrorIs(s, err, saga.ErrCompensated, "seed %d", seed)
				require.Equal(s, f.done[i], f.undone[i], "seed %d: step %d of a compensated saga", seed, i)
			}
		})
	}
}
