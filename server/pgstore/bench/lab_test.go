package main

import (
	"context"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// newLab is a lab that ends with the test.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := new(lab)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	return l
}

// newPostgres is the server of such a lab.
func newPostgres(t *testing.T) *postgres {
	t.Helper()
	on, err := newLab(t).postgres(t.Context())
	require.NoError(t, err)
	return on
}

// openDatabase is a database that ends with the test.
func openDatabase(t *testing.T, on *postgres, migrate func(context.Context, *pgxpool.Pool) error) *database {
	t.Helper()
	db, err := on.database(t.Context(), migrate)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.drop()) })
	return db
}

// someTable is a migration.
var someTable = script("create table it (n int)")

// skipWithoutCompiler skips a test that builds the slow disk or a program with the race detector.
func skipWithoutCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no cc on PATH (Debian package gcc): nothing is built for this bench")
	}
}
