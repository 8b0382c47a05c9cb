package pgkittest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
)

// A suite is the test of an imagined suite, and keeps what Rules does to it.
type suite struct {
	testing.TB
	name    string
	ends    []func()
	skipped bool
	failed  string
}

func (s *suite) Helper()                        {}
func (s *suite) Name() string                   { return s.name }
func (s *suite) Cleanup(end func())             { s.ends = append(s.ends, end) }
func (s *suite) Skip(...any)                    { s.skipped = true }
func (s *suite) Errorf(format string, a ...any) { s.failed += fmt.Sprintf(format, a...) }

func TestRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, failed string
		skipped      bool
	}{
		{"claim", "", false},
		{"settle", `pgkittest: the suite has no rule "settle"`, true},
		{"cla", `pgkittest: the suite has no rule "cla"`, true},
	} {
		owner := &suite{TB: t, name: "TestStore"}
		concerned := pgkittest.NewRules(owner, tt.kind)
		concerned.SkipOthers(owner)
		require.False(t, owner.skipped, tt.kind)
		rule := &suite{TB: t, name: "TestStore/claim:_one_of_32_wins"}
		concerned.SkipOthers(rule)
		require.Equal(t, tt.skipped, rule.skipped, tt.kind)
		for _, end := range owner.ends {
			end()
		}
		require.Equal(t, tt.failed, owner.failed, tt.kind)
	}
}
