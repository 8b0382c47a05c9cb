package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The handler that the guard is compared with does the same, without the guard.
func TestUnguarded_likeLedger(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), nothing)
	service, err := startLedger(t.Context(), buildLedger(t), db)
	require.NoError(t, err)
	defer func() { require.NoError(t, service.stop()) }()
	callee, err := hire("callee", calleeOrders{db.url})
	require.NoError(t, err)
	defer func() { require.NoError(t, callee.dismiss()) }()

	status, fields := answered(t, service.url)
	require.Equal(t, http.StatusCreated, status)
	otherStatus, otherFields := answered(t, callee.ready)
	require.Equal(t, status, otherStatus)
	require.Equal(t, fields, otherFields)
	rows, err := db.count(t.Context(), "select count(*) from effects")
	require.NoError(t, err)
	require.Equal(t, 2, rows)
	kinds, err := db.count(t.Context(), `select count(distinct (tenant, service, fp, saga, kind, length(key), length(effect_id))) from effects`)
	require.NoError(t, err)
	require.Equal(t, 1, kinds, "the rows differ by more than their key, fence and number")
}

func buildLedger(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "ledger")
	require.NoError(t, build(t.Context(), program, "github.com/fanonce/fanonce/examples/ledger"))
	return program
}

// answered returns a call's status, and the names and lengths of its answer's fields.
func answered(t *testing.T, url string) (int, map[string]int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+effectRoute, strings.NewReader(`{"fp":"bench"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer bench")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"`+newKey().String()+`"`)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var text map[string]string
	require.NoError(t, json.NewDecoder(res.Body).Decode(&text))
	lengths := make(map[string]int, len(text))
	for name, value := range text {
		lengths[name] = len(value)
	}
	return res.StatusCode, lengths
}

// The error of a service that cannot start reaches the process that started it.
func TestStartLedger_failure(t *testing.T) {
	t.Parallel()
	_, err := startLedger(t.Context(), buildLedger(t), &database{url: "postgres://127.0.0.1:1/x?sslmode=maybe"})
	require.ErrorContains(t, err, "the process ended")
	require.ErrorContains(t, err, "DATABASE_URL")
}
