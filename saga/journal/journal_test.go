package journal_test

import "testing"

// The journal of the example is a journal.
func TestExample_conforms(t *testing.T) {
	t.Parallel()
	conformance(t)
}
