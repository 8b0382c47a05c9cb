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

// A kind is what a step of a forest is.
type kind int

const (
	undoable     kind = iota
	steady            // undoable, and Retriable
	readOnly          // without an effect
	irreversible      // without an undo
	pivot
	retriable // behind the pivot
)

// A tree is one step of a forest.
type tree struct {
	kind         kind
	after        []int
	done, undone bool
}

// hasUndo reports whether compensation undoes the step.
func (s *tree) hasUndo() bool { return s.kind == undoable || s.kind == steady }

// A forest is a random saga of functions, and what they did.
type forest struct {
	mu     sync.Mutex
	random *rand.Rand
	steps  []*tree
	wrong  []string
}

// plant returns a forest of some steps. Behind its pivot, if it has one, all steps wait
// for the pivot.
func plant(random *rand.Rand) *forest {
	f := &forest{random: random}
	n := 2 + random.IntN(8)
	decides := random.IntN(2 * n) // it has none if that is n or more
	for i := range n {
		s := &tree{kind: kind(random.IntN(int(pivot)))}
		switch {
		case i == decides:
			s.kind = pivot
			for before := range i {
				s.after = append(s.after, before)
			}
		case i > decides:
			s.kind = retriable
			s.after = append(s.after, decides)
		}
		for before := range i {
			if i < decides && random.IntN(3) == 0 {
				s.after = append(s.after, before)
			}
		}
		f.steps = append(f.steps, s)
	}
	return f
}

// runsAfter reports whether step i runs after step before, directly or not.
func (f *forest) runsAfter(i, before int) bool {
	for _, b := range f.steps[i].after {
		if b == before || f.runsAfter(b, before) {
			return true
		}
	}
	return false
}

// step declares step i: it fails sometimes for now, and sometimes for good.
func (f *forest) step(b *saga.Builder[int, nothing], i int) *saga.StepRef[int, nothing] {
	s := f.steps[i]
	fate, tries := f.random.IntN(10), 0
	lasts := time.Duration(f.random.IntN(3)) * time.Second
	ref := saga.StepFunc(b, fmt.Sprintf("s%d.do", i), b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
		time.Sleep(lasts)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, before := range s.after {
			if !f.steps[before].done || f.steps[before].undone {
				f.wrong = append(f.wrong, fmt.Sprintf("%d ran before %d was done", i, before))
			}
		}
		tries++
		switch {
		case fate == 0 && s.kind != retriable && s.kind != steady:
			return nothing{}, saga.Rejected(errors.New("no"))
		case fate < 3 && tries == 1:
			return nothing{}, errors.New("who knows")
		case fate < 5 && tries == 1:
			s.done = true
			return nothing{}, errors.New("who knows")
		}
		s.done = true
		return nothing{}, nil
	}).Retention(20 * saga.DefaultUndoBudget)
	return f.mark(ref, i)
}

// mark says what the step is.
func (f *forest) mark(ref *saga.StepRef[int, nothing], i int) *saga.StepRef[int, nothing] {
	switch f.steps[i].kind {
	case readOnly:
		return ref.ReadOnly()
	case irreversible:
		return ref.Irreversible()
	case pivot:
		return ref.Pivot()
	case retriable:
		return ref.Retriable()
	case steady:
		ref.Retriable()
	case undoable:
	}
	takes := time.Duration(f.random.IntN(3)) * time.Second
	return ref.UndoFunc(fmt.Sprintf("s%d.undo", i), func(context.Context, saga.UndoCall[int, nothing]) error {
		time.Sleep(takes)
		f.mu.Lock()
		defer f.mu.Unlock()
		for other, s := range f.steps {
			if s.hasUndo() && s.done && !s.undone && f.runsAfter(other, i) {
				f.wrong = append(f.wrong, fmt.Sprintf("%d was undone before %d", i, other))
			}
		}
		f.steps[i].undone = true
		return nil
	})
}

// define returns the saga.
func (f *forest) define() *saga.Definition[int, nothing] {
	return saga.MustDefine("forest", 1, func(b *saga.Builder[int, nothing]) {
		b.MaxParallel(1 + f.random.IntN(4))
		refs := make([]saga.AnyStep, len(f.steps))
		for i, s := range f.steps {
			ref := f.step(b, i)
			for _, before := range s.after {
				ref.After(refs[before])
			}
			refs[i] = ref
		}
	})
}

// runCancelled starts the saga, has a person cancel it after a while, and waits for its end. The
// person is in the process that drives the saga, or in another one. cancelled is false if it
// was too late for that.
func (f *forest) runCancelled(s *stage, d *saga.Definition[int, nothing]) (cancelled bool, err error) {
	e := s.open(d)
	person := e
	if f.random.IntN(2) == 0 {
		person = s.openOn(blind(s.journal), d) // which claims nothing
	}
	_, err = d.Start(s.Context(), e, key(s.T, "k"), 1)
	require.NoError(s, err)
	time.Sleep(time.Duration(f.random.IntN(8000)) * time.Millisecond)
	_, err = person.Cancel(s.Context(), s.id("k"), someone)
	if err != nil {
		require.ErrorIs(s, err, saga.ErrConflict)
	}
	cancelled = err == nil
	_, err = d.Run(s.Context(), e, key(s.T, "k"), 1)
	return cancelled, err
}

// Random graphs have every kind of step and random failures, and half of them have a Cancel at a
// random time. Every step runs after the steps before it. Every undo runs after the undos of all
// later steps. In the end all effects are there, or none.
func TestRun_randomGraphs(t *testing.T) {
	t.Parallel()
	completed, compensated := make(map[kind]int), make(map[kind]int)
	var stopped, late int // sagas that were cancelled, and that had gone too far for it
	for seed := range uint64(800) {
		inBubble(t, func(s *stage) {
			f := plant(rand.New(rand.NewPCG(seed, 1)))
			d := f.define()
			var err error
			if seed%2 == 0 {
				_, err = d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
			} else {
				var cancelled bool
				if cancelled, err = f.runCancelled(s, d); cancelled && err != nil {
					stopped++
				} else {
					late++
				}
			}
			require.Empty(s, f.wrong, "seed %d", seed)
			for i, step := range f.steps {
				if err == nil {
					completed[step.kind]++
					require.True(s, step.done && !step.undone, "seed %d: step %d of a completed saga", seed, i)
					continue
				}
				compensated[step.kind]++
				require.ErrorIs(s, err, saga.ErrCompensated, "seed %d", seed)
				if step.hasUndo() {
					require.Equal(s, step.done, step.undone, "seed %d: step %d of a compensated saga", seed, i)
				} else if step.kind >= pivot {
					require.False(s, step.done, "seed %d: step %d of a compensated saga", seed, i)
				}
			}
		})
	}
	require.NotZero(t, stopped)
	require.NotZero(t, late)
	for k := undoable; k <= retriable; k++ {
		require.NotZero(t, completed[k], "kind %d", k)
		require.NotZero(t, compensated[k], "kind %d", k)
	}
}
