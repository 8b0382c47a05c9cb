package pgkittest

import (
	"flag"
	"strings"
	"sync"
	"testing"
)

// Rules are the kinds of rules of a conformance suite that an option concerns. Another test runs the whole suite. Make
// them with [NewRules].
type Rules struct {
	mu   sync.Mutex
	seen map[string]bool // by the kind
}

// NewRules returns the kinds. A kind is the part of a rule's name before the colon. It fails owner if the suite has no
// rule of a kind.
func NewRules(owner testing.TB, kinds ...string) *Rules {
	r := &Rules{seen: make(map[string]bool)}
	for _, kind := range kinds {
		r.seen[kind] = false
	}
	owner.Cleanup(func() {
		if run := flag.Lookup("test.run"); run != nil && strings.Contains(run.Value.String(), "/") {
			return // not all rules were run
		}
		for kind, seen := range r.seen {
			if !seen {
				owner.Errorf("pgkittest: the suite has no rule %q", kind)
			}
		}
	})
	return r
}

// SkipOthers skips tb, the subtest of a rule, if the rule is of none of the kinds.
func (r *Rules) SkipOthers(tb testing.TB) {
	tb.Helper()
	_, rule, isRule := strings.Cut(tb.Name(), "/")
	if !isRule {
		return // the suite as a whole
	}
	kind, _, _ := strings.Cut(rule, ":")
	r.mu.Lock()
	_, concerned := r.seen[kind]
	if concerned {
		r.seen[kind] = true
	}
	r.mu.Unlock()
	if !concerned {
		tb.Skip("the option does not concern this rule, and another test runs the whole suite")
	}
}
