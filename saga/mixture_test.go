package saga_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A part is one step of a mixture: a call, an Each with a call for each unit, a sleep, or a wait for a signal.
type part struct {
	sleeps      time.Duration // 0: it does not sleep
	waits       *signalled    // nil: it does not wait
	data, after []int         // parts before it, whose outputs it needs or not
	hears       []int         // waits before it, whose values it gets
	unmet       bool          // it has a condition, which does not hold
	optional    bool
	isEach      bool
	lasts       time.Duration
	units       []*unit // one, unless it is an Each
}

// A signalled is a wait, and what became of the one value that it was sent.
type signalled struct {
	sentAfter, timeout          time.Duration // timeout 0: none
	optional                    bool
	sending, stored, late       bool
	seenWithout, seenWithSignal bool
}

// A unit is what a call does.
type unit struct{ refused, done, undone, barred bool }

// has reports whether any unit of the part is as is says.
func (p *part) has(is func(u *unit) bool) bool { return slices.ContainsFunc(p.units, is) }

func isRefused(u *unit) bool  { return u.refused }
func isMissing(u *unit) bool  { return !u.done }
func isStanding(u *unit) bool { return u.done && !u.undone }

// A mixture is a random saga of sleeps and waits, and of calls with conditions, which may be for items, optional or refused.
// All calls have an undo.
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
		switch random.IntN(8) {
		case 0, 1:
			p.sleeps = time.Duration(1+random.IntN(100)) * time.Second // a lease is shorter than some
		case 2, 3:
			p.waits = &signalled{sentAfter: time.Duration(random.IntN(100)) * time.Second}
			if random.IntN(2) == 0 {
				p.waits.timeout, p.waits.optional = time.Duration(1+random.IntN(200))*time.Second, random.IntN(2) == 0
			}
		default:
			p.unmet, p.isEach = random.IntN(5) == 0, random.IntN(3) == 0
			p.optional = !p.isEach && random.IntN(3) == 0
			n := 1
			if p.isEach {
				n = random.IntN(4)
			}
			for range n {
				p.units = append(p.units, &unit{refused: random.IntN(8) == 0})
			}
		}
		for before := range i {
			switch of := m.parts[before]; random.IntN(4) {
			case 0:
				p.after = append(p.after, before)
			case 1:
				switch {
				case p.units == nil && !p.isEach: // it has no input
				case of.waits != nil:
					p.hears = append(p.hears, before)
				case of.sleeps == 0:
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
	return p.unmet || p.optional && p.has(isRefused)
}

// fails reports whether the saga is to fail of part i.
func (m *mixture) fails(i int) bool { return m.parts[i].has(isRefused) && !m.isSkipped(i) }

func (m *mixture) runsAfter(i, before int) bool {
	for _, b := range slices.Concat(m.parts[i].after, m.parts[i].data, m.parts[i].hears) {
		if b == before || m.runsAfter(b, before) {
			return true
		}
	}
	return false
}

func (m *mixture) complain(format string, a ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, a...))
}

// A share is the input of a unit's call: which one it is, and what all units of the part get.
type share struct {
	Unit, In int
	Heard    []string // the values of the signals, or "" for those that nobody sent in time
}

// call is what the units of part i do. In counts the parts that it needs, and all that these need, with an Each for each of its items.
func (m *mixture) call(i int) func(context.Context, saga.Call[share]) (int, error) {
	p := m.parts[i]
	return func(_ context.Context, call saga.Call[share]) (int, error) {
		time.Sleep(p.lasts)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.checkBegun(i, call.Input)
		switch u := p.units[call.Input.Unit]; {
		case u.barred: // as a callee says to a late copy of a call
			return 0, saga.Rejected(errors.New("undone"))
		case u.refused:
			return 0, saga.Rejected(errors.New("no"))
		default:
			u.done = true
		}
		return call.Input.In, nil
	}
}

// checkBegun looks whether part i may run with that input.
func (m *mixture) checkBegun(i int, in share) {
	p := m.parts[i]
	if p.unmet {
		m.complain("%d ran though its condition does not hold", i)
	}
	if want := m.inputOf(i); in.In != want {
		m.complain("%d got %d, want %d", i, in.In, want)
	}
	for k, value := range in.Heard {
		m.parts[p.hears[k]].waits.note(value)
	}
	for _, before := range slices.Concat(p.data, p.after, p.hears) {
		of := m.parts[before]
		switch {
		case of.waits != nil:
			if w := of.waits; !w.sending && !(w.optional && time.Since(m.started) >= w.timeout) {
				m.complain("%d ran before the wait %d was over", i, before)
			}
		case of.sleeps > 0 && time.Since(m.started) < of.sleeps:
			m.complain("%d ran before the sleep %d was over", i, before)
		case !m.isSkipped(before) && of.has(isMissing):
			m.complain("%d ran before %d was done", i, before)
		}
	}
}

// signal is the value that all waits are sent.
const signal = "go"

func (w *signalled) note(value string) {
	if value == signal {
		w.seenWithSignal = true
	} else {
		w.seenWithout = true
	}
}

// send sends a wait its value, from a process of its own.
func (m *mixture) send(s *stage, i int) {
	w := m.parts[i].waits
	time.Sleep(w.sentAfter)
	m.mu.Lock()
	w.sending = true
	m.mu.Unlock()
	tool, err := saga.NewOperator(s.journal)
	if err == nil {
		err = signalOf(i).Send(s.Context(), tool, journal.IDOf("", "mixture", key(s.T, "k")), signal)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.stored, w.late = err == nil, errors.Is(err, saga.ErrTooLate)
	if !w.stored && !w.late {
		m.complain("signal %d: %v", i, err)
	}
}

func signalOf(i int) saga.Signal[string] { return saga.NewSignal[string](fmt.Sprintf("p%d.signal", i)) }

func (m *mixture) inputOf(i int) int {
	n := 1
	for _, before := range m.parts[i].data {
		n += len(m.parts[before].units) * m.inputOf(before)
	}
	return n
}

func (m *mixture) undo(i int) func(context.Context, saga.UndoCall[share, int]) error {
	return func(_ context.Context, undo saga.UndoCall[share, int]) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for other, p := range m.parts {
			if p.has(isStanding) && m.runsAfter(other, i) {
				m.complain("%d was undone before %d", i, other)
			}
		}
		u := m.parts[i].units[undo.Input.Unit]
		u.barred, u.undone = true, u.done
		return nil
	}
}

func (m *mixture) define() *saga.Definition[int, nothing] {
	return saga.MustDefine("mixture", 1, func(b *saga.Builder[int, nothing]) {
		b.MaxParallel(1 + m.random.IntN(4))
		refs, outputs, heard := make([]saga.AnyStep, len(m.parts)), make([]saga.Value[int], len(m.parts)), make([]saga.Value[string], len(m.parts))
		for i, p := range m.parts {
			before := make([]saga.AnyStep, len(p.after))
			for k, b := range p.after {
				before[k] = refs[b]
			}
			in := saga.Map(b.Input(), func(in int) share { return share{In: in} })
			for _, d := range p.data {
				in = saga.Map2(in, outputs[d], func(in share, more int) share { return share{In: in.In + more, Heard: in.Heard} })
			}
			for _, h := range p.hears {
				in = saga.Map2(in, heard[h], func(in share, value string) share {
					return share{In: in.In, Heard: append(slices.Clone(in.Heard), value)}
				})
			}
			switch {
			case p.waits != nil:
				ref := saga.Await(b, signalOf(i)).After(before...)
				if p.waits.timeout > 0 {
					ref.Timeout(p.waits.timeout)
				}
				if p.waits.optional {
					ref.Optional()
				}
				refs[i], heard[i] = ref, ref.Or(saga.Const(b, ""))
			case p.sleeps > 0:
				refs[i] = saga.Sleep(b, fmt.Sprintf("p%d.sleep", i), saga.Const(b, p.sleeps)).After(before...)
			case p.isEach:
				ref := m.each(b, i, in).After(before...)
				refs[i], outputs[i] = ref, saga.Map(ref.Output(), sum)
			default:
				ref := m.step(b, i, in).After(before...)
				refs[i], outputs[i] = ref, ref.Output()
			}
		}
	})
}

func (m *mixture) step(b *saga.Builder[int, nothing], i int, in saga.Value[share]) *saga.StepRef[share, int] {
	p := m.parts[i]
	ref := saga.StepFunc(b, fmt.Sprintf("p%d.do", i), in, m.call(i)).
		UndoFunc(fmt.Sprintf("p%d.undo", i), m.undo(i)).Retention(20 * saga.DefaultUndoBudget)
	if p.optional {
		ref.Optional()
	}
	if p.unmet || m.random.IntN(4) == 0 {
		ref.When(saga.Map(b.Input(), func(int) bool { return !p.unmet }))
	}
	return ref
}

func (m *mixture) each(b *saga.Builder[int, nothing], i int, in saga.Value[share]) *saga.EachRef[share, int] {
	p := m.parts[i]
	items := saga.Map(in, func(in share) []share {
		all := make([]share, len(p.units))
		for k := range all {
			all[k] = share{k, in.In, in.Heard}
		}
		return all
	})
	ref := saga.EachFunc(b, fmt.Sprintf("p%d.do", i), items, func(s share) string { return fmt.Sprint("u", s.Unit) }, m.call(i)).
		UndoFunc(fmt.Sprintf("p%d.undo", i), m.undo(i)).Retention(20 * saga.DefaultUndoBudget)
	if p.unmet || m.random.IntN(4) == 0 {
		ref.When(saga.Map(b.Input(), func(int) bool { return !p.unmet }))
	}
	return ref
}

func sum(all []int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

// Constructs stand beside each other in random graphs, under deploys: each engine is closed after a random time, and another
// one goes on. What is skipped never runs, what is not runs after what is before it, with the same input, and in the end all
// effects are there or none. Half of the sagas are cancelled at a random time, also while they sleep.
func TestRun_randomConstructs(t *testing.T) {
	t.Parallel()
	var completed, compensated, skipped int
	signals := make(map[bool]int) // by whether they were in time
	for seed := range uint64(400) {
		inBubble(t, func(s *stage) {
			m := mix(rand.New(rand.NewPCG(seed, 2)))
			d := m.define()
			m.started = time.Now()
			e := s.open(d)
			var senders sync.WaitGroup
			for i, p := range m.parts {
				if p.waits != nil {
					senders.Go(func() { m.send(s, i) })
				}
			}
			if seed%3 == 0 { // some signals are there first
				time.Sleep(10 * time.Second)
			}
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
			senders.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			require.Empty(s, m.wrong, "seed %d", seed)
			fails, late := false, false
			for i, p := range m.parts {
				fails = fails || m.fails(i)
				if w := p.waits; w != nil {
					late = late || w.late && !w.optional
					signals[w.stored]++
					require.False(s, w.seenWithout && w.stored, "seed %d: signal %d was taken, and not seen", seed, i)
					require.False(s, w.seenWithSignal && !w.stored, "seed %d: signal %d was too late, and was seen", seed, i)
				}
			}
			if err == nil {
				require.False(s, fails || late, "seed %d: it completed in spite of a refusal or a wait in vain", seed)
				completed++
			} else {
				require.ErrorIs(s, err, saga.ErrCompensated, "seed %d", seed)
				require.True(s, fails || late || cancelAt >= 0, "seed %d: nothing failed: %v", seed, err)
				compensated++
			}
			for i, p := range m.parts {
				for _, u := range p.units {
					switch {
					case m.isSkipped(i):
						skipped++
						require.False(s, u.done, "seed %d: part %d was to be skipped", seed, i)
					case err == nil:
						require.True(s, u.done && !u.undone, "seed %d: part %d of a completed saga", seed, i)
					default:
						require.Equal(s, u.done, u.undone, "seed %d: part %d of a compensated saga", seed, i)
					}
				}
			}
		})
	}
	require.NotZero(t, completed)
	require.NotZero(t, compensated)
	require.NotZero(t, skipped)
	require.NotZero(t, signals[true])
	require.NotZero(t, signals[false])
	t.Logf("%d completed, %d compensated, %d units skipped, signals in time: %v", completed, compensated, skipped, signals)
}
