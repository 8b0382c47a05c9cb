package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A build that was cut short does not mean that there can be none.
func TestBuild_errors(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	require.ErrorIs(t, build(t.Context(), program, "github.com/fanonce/fanonce/none"), errNotBuilt)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	err := build(ctx, program, "github.com/fanonce/fanonce/examples/ledger")
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, errNotBuilt)
}
