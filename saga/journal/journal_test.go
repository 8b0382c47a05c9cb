package journal_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// The journal of the example is a journal.
func TestExample_conforms(t *testing.T) {
	t.Parallel()
	conformance(t)
}

// A failure's text says which call failed, and the first of what its answer says: the code, a text for people, the rest.
func TestFailure_String(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]journal.Failure{
		"timeout":                       {Reason: journal.ReasonTimeout},
		"undo of a.b Unknown: 500":      {Reason: journal.ReasonStep, Step: "a.b", Undo: true, Detail: "500"},
		"a.b Rejected: No tea is left.": {Step: "a.b", Outcome: retry.Rejected, Problem: "No tea is left.", Detail: "409"},
		"a.b Rejected: sold-out":        {Step: "a.b", Outcome: retry.Rejected, Code: "sold-out", Problem: "No tea is left."},
	} {
		require.Equal(t, want, f.String())
	}
}

// A client that was told the ID of its saga asks by it.
func TestParseID(t *testing.T) {
	t.Parallel()
	id := journal.IDOf("tenant", "checkout", childkey.MustParse("order-1"))
	for _, text := range []string{id.String(), strings.ToUpper(id.String()), uuid.UUID(id).String()} {
		parsed, err := journal.ParseID(text)
		require.NoError(t, err)
		require.Equal(t, id, parsed)
	}
	for _, text := range []string{"", "order-1", id.String()[1:], id.String() + "00", "z" + id.String()[1:]} {
		parsed, err := journal.ParseID(text)
		require.ErrorContains(t, err, "32 hex digits", text)
		require.Zero(t, parsed)
	}
}
