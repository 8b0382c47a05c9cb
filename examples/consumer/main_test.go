package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

func TestRun(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"no command", nil, 2, "usage"},
		{"no such command", []string{"till"}, 2, "usage"},
		{"no such flag", []string{"shop", "-x"}, 2, "-x"},
		{"no database", []string{"shop", "-database", ""}, 2, "-database is required"},
		{"too much", []string{"migrate", "-database", url, "now"}, 2, "usage"},
		{"help", []string{"ledger", "-h"}, 0, "-ack-wait"},
		{"not migrated", []string{"ledger", "-database", url, "-non-durable"}, 1, "Migrate"},
		{"migrate", []string{"migrate", "-database", url}, 0, ""},
		{"migrate again", []string{"migrate", "-database", url}, 0, ""},
		{"unknown broker", []string{"ledger", "-database", url, "-non-durable", "-broker", "pigeon://roof"}, 1, "pigeon"},
		{"no broker there", []string{"ledger", "-database", url, "-non-durable", "-broker", "amqp://127.0.0.1:1"}, 1, "-broker"},
		{"short lease", []string{"shop", "-database", url, "-non-durable", "-lease", "1ms"}, 1, "Lease"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.status, run(t.Context(), tt.args, &stdout, &stderr), "%s: %s", tt.name, stderr.String())
		require.Contains(t, stderr.String(), tt.says, tt.name)
	}
}
