package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
)

// The contract once more, as callers and callees in production know it: a row
// that changes breaks them.
func TestSituations(t *testing.T) {
	t.Parallel()
	want := []struct {
		code                  wire.Code
		status                int
		grpc                  string
		retryable, retryAfter bool
	}{
		{"scope-missing", 401, "UNAUTHENTICATED", false, false},
		{"scope-unavailable", 503, "UNAVAILABLE", true, true},
		{"key-missing", 400, "INVALID_ARGUMENT", false, false},
		{"key-invalid", 400, "INVALID_ARGUMENT", false, false},
		{"first-sent-invalid", 400, "INVALID_ARGUMENT", false, false},
		{"body-incomplete", 400, "INVALID_ARGUMENT", false, false},
		{"body-timeout", 408, "UNAVAILABLE", true, true},
		{"key-reused", 422, "FAILED_PRECONDITION", false, false},
		{"in-progress", 409, "ABORTED", true, true},
		{"key-expired", 412, "FAILED_PRECONDITION", false, false},
		{"response-gone", 410, "FAILED_PRECONDITION", false, false},
		{"key-cancelled", 410, "FAILED_PRECONDITION", false, false},
		{"outcome-unknown", 423, "FAILED_PRECONDITION", false, false},
		{"lease-lost", 409, "ABORTED", true, true},
		{"body-too-large", 413, "RESOURCE_EXHAUSTED", false, false},
		{"not-storable", 500, "INTERNAL", false, false},
		{"record-unreadable", 500, "INTERNAL", false, false},
		{"poisoned", 423, "FAILED_PRECONDITION", false, false},
		{"transaction-failed", 500, "INTERNAL", false, false},
		{"not-claimed", 503, "UNAVAILABLE", true, true},
		{"store-unavailable", 503, "UNAVAILABLE", true, true},
		{"key-not-found", 404, "NOT_FOUND", false, false},
		{"method-not-allowed", 405, "UNIMPLEMENTED", false, false},
	}
	got := wire.Situations()
	require.Len(t, got, len(want))
	seen, titles := map[wire.Code]bool{}, map[string]bool{}
	for i, s := range got {
		w := want[i]
		require.Equal(t, wire.Situation{Code: w.code, Status: w.status, GRPC: w.grpc, Title: s.Title, Retryable: w.retryable, RetryAfter: w.retryAfter}, s)
		require.False(t, seen[s.Code], "%s twice", s.Code)
		require.NotEmpty(t, s.Title)
		require.False(t, titles[s.Title], "%q twice", s.Title)
		seen[s.Code], titles[s.Title] = true, true
		row, ok := s.Code.Situation()
		require.True(t, ok)
		require.Equal(t, s, row)
	}
}

func TestSituations_isACopy(t *testing.T) {
	t.Parallel()
	wire.Situations()[0].Status = 200
	require.Equal(t, 401, wire.Situations()[0].Status)
}

func TestCode_unknown(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.Code{"", "IN-PROGRESS", "in_progress", "teapot"} {
		s, ok := code.Situation()
		require.False(t, ok)
		require.Zero(t, s)
	}
}

func TestCode_Reason(t *testing.T) {
	t.Parallel()
	require.Equal(t, "IN_PROGRESS", wire.InProgress.Reason())
	for _, s := range wire.Situations() {
		require.Regexp(t, `^[A-Z][A-Z0-9_]+[A-Z0-9]$`, s.Code.Reason(), "AIP-193")
		code, ok := wire.CodeOfReason(s.Code.Reason())
		require.True(t, ok, s.Code)
		require.Equal(t, s.Code, code)
	}
	for _, foreign := range []string{"", "in-progress", "in_progress", "API_DISABLED"} {
		_, ok := wire.CodeOfReason(foreign)
		require.False(t, ok, foreign)
	}
}
