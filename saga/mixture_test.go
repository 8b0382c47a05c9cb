package saga_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
)

// A part is one step of a mixture: a call, or a sleep.
type part struct {
	sleeps               time.Duration // 0: it is a call
	data, after          []int         // parts before it, whose outputs it needs or not
	unmet                bool          // it has a condition, which does not hold
	optional, refused    bool
	lasts                time.Duration
	done, undone, barred bool
}

// A mixture is a random saga of sleeps and of calls with conditions, which may be optional or refused. All have an undo.
type mixture struct {
	mu      sync.Mutex
	random  *rand.Rand
	parts   []*part
	started time.Time
	wrong   []string
}

func mix(random *rand.Rand) *mixture {
	m := &mixture{random: random}
	for i := range 2 + random.IntN(8) {
		p := &part{lasts: time.Duration(random.IntN(3)) * time.Second}
		if random.IntN(4) == 0 {
			p.sleeps = time.Duration(1+random.IntN(100)) * time.Second // a lease is shorter than some
		} else {
			p.unmet, p.optional, p.refused = random.IntN(5) == 0, random.IntN(3) == 0, random.IntN(8) == 0
		}
		for before := range i {
			switch of := m.parts[before]; random.IntN(4) {
			case 0:
				p.after = append(p.after, before)
			case 1:
				if of.sleeps == 0 && p.sleeps == 0 {
					p.data = append(p.data, before)
				}
			}
		}
		m.parts = append(m.parts, p)
	}
	return m
}

// isSkipped reports whether the saga is to go on without part i.
func (m *mixture) isSkipped(i int) bool {
	p := m.parts[i]
	for _, before := range p.data {
		if m.isSkipped(before) {
			return true
		}
	}
	return p.unmet || p.optional && p.refused
}

// fails reports whether the saga is to fail of part i.
func (m *mixture) fails(i int) bool { return m.parts[i].refused && !m.isSkipped(i) }

func (m *mixture) runsAfter(i, before int) bool {
	for _, b := range append(m.parts[i].after, m.parts[i].data...) {
		if b == before || m.runsAfter(b, before) {
			return true
		}
	}
	return false
}

func (m *mixture) complain(format string, a ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, a...))
}

// call is what part i does. Its input counts the parts that it needs, and all that these need.
func (m *mixture) call(i int) func(context.Context, saga.Call[int]) (int, error) {
	p := m.parts[i]
	return func(_ context.Context, call saga.Call[int]) (int, error) {
		time.Sleep(p.lasts)
		m.mu.Lock()
		defer m.mu.Unlock()
		want := 1
		for _, before := range p.data {
			want += m.weightOf(before)
		}
		if call.Input != want {
			m.complain("%d got %d, want %d", i, call.Input, want)
		}
		for _, before := range append(p.data, p.after...) {
			of := m.parts[before]
			switch {
			case of.sleeps > 0 && time.Since(m.started) < of.sleeps:
				m.complain("%d ran before the sleep %d was over", i, before)
			case of.sleeps == 0 && !m.isSkipped(before) && !of.done:
				m.complain("%d ran before %d was done", i, before)
			}
		}
		switch {
		case p.unmet:
			m.complain("%d ran though its condition does not hold", i)
		case p.barred: // as a callee says to a late copy of a call
			return 0, saga.Rejected(errors.New("undone"))
		case p.refused:
			return 0, saga.Rejected(errors.New("no"))
		}
		p.done = true
		return want, nil
	}
}

func (m *mixture) weightOf(i int) int {
	n := 1
	for _, before := range m.parts[i].data {
		n += m.weightOf(before)
	}
	return n
}

func (m *mixture) undo(i int) func(context.Context, saga.UndoCall[int, int]) error {
	return func(context.Context, saga.UndoCall[int, int]) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for other, p := range m.parts {
			if p.done && !p.undone && m.runsAfter(other, i) {
				m.complain("%d was undone before %d", i, other)
			}
		}
		m.parts[i].barred, m.parts[i].undone = true, m.parts[i].done
		return nil
	}
}

func (m *mixture) define() *saga.Definition[int, nothing] {
	return saga.MustDefine("mixture", 1, func(b *saga.Builder[int, nothing]) {
		b.MaxParallel(1 + m.random.IntN(4))
		refs, outputs := make([]saga.AnyStep, len(m.parts)), make([]saga.Value[int], len(m.parts))
		for i, p := range m.parts {
			before := make([]saga.AnyStep, len(p.after))
			for k, b := range p.after {
				before[k] = refs[b]
			}
			if p.sleeps > 0 {
				refs[i] = saga.Sleep(b, fmt.Sprintf("p%d.sleep", i), saga.Const(b, p.sleeps)).After(before...)
				continue
			}
			in := b.Input()
			for _, d := range p.data {
				in = saga.Map2(in, outputs[d], func(a, b int) int { return a + b })
			}
			ref := saga.StepFunc(b, fmt.Sprintf("p%d.do", i), in, m.call(i)).UndoFunc(fmt.Sprintf("p%d.undo", i), m.undo(i)).
				After(before...).Retention(20 * saga.DefaultUndoBudget)
			if p.optional {
				ref.Optional()
			}
			if p.unmet || m.random.IntN(4) == 0 {
				ref.When(saga.Map(b.Input(), func(int) bool { return !p.unmet }))
			}
			refs[i], outputs[i] = ref, ref.Output()
		}
	})
}

// Constructs stand beside each other in random graphs, under deploys: each engine is closed after a random time, and another
// one goes on. What is skipped never runs, what is not runs after what is before it, with the same input, and in the end all
// effects are there or none. Half of the sagas are cancelled at a random time, also while they sleep.
func TestRun_randomConstructs(t *testing.T) {
	t.Parallel()
	var completed, compensated, skipped int
	for seed := range uint64(400) {
		inBubble(t, func(s *stage) {
			m := mix(rand.New(rand.NewPCG(seed, 2)))
			d := m.define()
			m.started = time.Now()
			e := s.open(d)
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			cancelAt := -1
			if seed%2 == 0 {
				cancelAt = m.random.IntN(3)
			}
			for deploy := range 3 {
				time.Sleep(time.Duration(m.random.IntN(40_000)) * time.Millisecond)
				if deploy == cancelAt {
					if _, err := e.Cancel(s.Context(), s.id("k"), someone); err != nil {
						require.ErrorIs(s, err, saga.ErrConflict)
						cancelAt = -1
					}
				}
				next := s.open(d)
				hurry, cancel := context.WithTimeout(s.Context(), time.Duration(m.random.IntN(3))*time.Second)
				_ = e.Close(hurry)
				cancel()
				e = next
			}
			_, err = d.Run(s.Context(), e, key(s.T, "k"), 1)
			m.mu.Lock()
			defer m.mu.Unlock()
			require.Empty(s, m.wrong, "seed %d", seed)
			fails := false
			for i := range m.parts {
				fails = fails || m.fails(i)
			}
			if err == nil {
				require.False(s, fails, "seed %d: it completed in spite of a refusal", seed)
				completed++
			} else {
				require.ErrorIs(s, err, saga.ErrCompensated, "seed %d", seed)
				require.True(s, fails || cancelAt >= 0, "seed %d: nothing failed: %v", seed, err)
				compensated++
			}
			for i, p := range m.parts {
				switch {
				case p.sleeps > 0:
				case m.isSkipped(i):
					skipped++
					require.False(s, p.done, "seed %d: part %d was to be skipped", seed, i)
				case err == nil:
					require.True(s, p.done && !p.undone, "seed %d: part %d of a completed saga", seed, i)
				default:
					require.Equal(s, p.done, p.undone, "seed %d: part %d of a compensated saga", seed, i)
				}
			}
		})
	}
	require.NotZero(t, completed)
	require.NotZero(t, compensated)
	require.NotZero(t, skipped)
	t.Logf("%d completed, %d compensated, %d parts skipped", completed, compensated, skipped)
}
