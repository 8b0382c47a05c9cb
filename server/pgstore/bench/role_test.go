package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Not parallel: it sets the environment.
func TestPlay_refuses(t *testing.T) {
	tests := []struct{ name, role, orders, want string }{
		{"nobody's role", "director", "{}\n", "no role \"director\""},
		{"no orders", "callee", "", "EOF"},
		{"orders that are none", "callee", "x\n", "invalid character"},
		{"a database that is none", "callee", `{"URL":"postgres://127.0.0.1:1/x?sslmode=maybe"}` + "\n", "sslmode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(roleVariable, tt.role)
			require.ErrorContains(t, play(t.Context(), strings.NewReader(tt.orders), io.Discard), tt.want)
		})
	}
}

// An error in a process reaches the process that started it.
func TestHire_failure(t *testing.T) {
	t.Parallel()
	_, err := hire("director", struct{}{})
	require.ErrorContains(t, err, "a director is not ready")
	require.ErrorContains(t, err, "no role")
}
