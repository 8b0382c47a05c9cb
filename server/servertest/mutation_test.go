package servertest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var allLaws = slices.Concat(laws, txLaws, watchLaws)

// TestLaws_healthy is the control: what the mutants are made of breaks no law.
func TestLaws_healthy(t *testing.T) {
	t.Parallel()
	for _, l := range allLaws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			m := newMutant(t)
			r := watch(l, &check{TB: t, store: m, txs: m, watches: m, effects: &m.marred})
			if r.Failed() {
				t.Errorf("a healthy store broke the law:\n%s", r.report())
			}
		})
	}
}

// TestLaws_inABubble shows that no law spins, or needs real time to pass: in a
// bubble time stands still unless everybody waits.
func TestLaws_inABubble(t *testing.T) {
	t.Parallel()
	for _, l := range allLaws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMutant(t)
				l.holds(&check{TB: t, store: m, txs: m, watches: m, effects: &m.marred})
			})
		})
	}
}

const tries = 100

func TestLaws_catchMutants(t *testing.T) {
	t.Parallel()
	for _, d := range defects {
		for _, name := range d.breaks {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				// Races are provoked, not forced, and the mutants are fast: some
				// pass four times of five.
				for range tries {
					if try(t, d, lawNamed(t, name)).Failed() {
						return
					}
				}
				t.Errorf("a store that %s passed %d times", d.name, tries)
			})
		}
	}
}

// TestLaws_eachBites fails for a law that no defect is known to break: it could
// as well be empty.
func TestLaws_eachBites(t *testing.T) {
	t.Parallel()
	for _, l := range allLaws {
		bites := slices.ContainsFunc(defects, func(d defect) bool { return slices.Contains(d.breaks, l.name) })
		if !bites {
			t.Errorf("no defect breaks %q", l.name)
		}
	}
}

// try runs a law on a store with a defect, and with little patience.
func try(tb testing.TB, d defect, l law) *recorder {
	m := newMutant(tb)
	d.mar(m)
	return watch(l, &check{TB: tb, store: m, txs: m, watches: m, effects: &m.marred, patience: 300 * time.Millisecond})
}

func lawNamed(t *testing.T, name string) law {
	t.Helper()
	i := slices.IndexFunc(allLaws, func(l law) bool { return l.name == name })
	if i < 0 {
		t.Fatalf("no law is named %q", name)
	}
	return allLaws[i]
}
