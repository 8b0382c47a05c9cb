package servertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var allRules = slices.Concat(rules, txRules, watchRules, readerRules)

// TestRules_healthy is the control: the store under the mutants breaks no rule.
func TestRules_healthy(t *testing.T) {
	t.Parallel()
	for _, l := range allRules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			m := newMutant(t)
			r := watch(l, m.check(t))
			if r.Failed() {
				t.Errorf("a healthy store broke the rule:\n%s", r.report())
			}
		})
	}
}

// TestRules_inABubble shows that no rule spins, or needs real time. In a bubble
// time moves only while all goroutines wait.
func TestRules_inABubble(t *testing.T) {
	t.Parallel()
	for _, l := range allRules {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMutant(t)
				l.holds(m.check(t))
			})
		})
	}
}

func (m *mutant) check(tb testing.TB) *check {
	c := newReaderCheck(tb, ReaderSetup{Store: m, Reader: m.Reader(), SameTime: m.sameTime})
	c.txs, c.watches, c.effects = m, m, &m.marred
	return c
}

const tries = 100

func TestRules_catchMutants(t *testing.T) {
	t.Parallel()
	for _, d := range defects {
		for _, name := range d.breaks {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				// Races are provoked, not forced, and the mutants are fast: some
				// pass four times of five.
				for range tries {
					if try(t, d, ruleNamed(t, name)).Failed() {
						return
					}
				}
				t.Errorf("a store that %s passed %d times", d.name, tries)
			})
		}
	}
}

// TestRules_eachBites fails for a rule that no known defect breaks: such a rule
// could be empty.
func TestRules_eachBites(t *testing.T) {
	t.Parallel()
	for _, l := range allRules {
		bites := slices.ContainsFunc(defects, func(d defect) bool { return slices.Contains(d.breaks, l.name) })
		if !bites {
			t.Errorf("no defect breaks %q", l.name)
		}
	}
}

// try runs a rule on a store with a defect, and with little patience.
func try(tb testing.TB, d defect, l rule) *recorder {
	m := newMutant(tb)
	d.mar(m)
	c := m.check(tb)
	c.patience = 300 * time.Millisecond
	return watch(l, c)
}

func ruleNamed(t *testing.T, name string) rule {
	t.Helper()
	i := slices.IndexFunc(allRules, func(l rule) bool { return l.name == name })
	if i < 0 {
		t.Fatalf("no rule is named %q", name)
	}
	return allRules[i]
}
