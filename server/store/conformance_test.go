package store_test

import "testing"

// The store of the Example meets the suite that it names.
func TestExample_conforms(t *testing.T) {
	t.Parallel()
	conformance(t)
}
