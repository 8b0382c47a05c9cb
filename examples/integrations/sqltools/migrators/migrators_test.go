package migrators_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/sqltools/migrators"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// steps is how many files lead to the latest versions of all packages.
var steps = upFiles(pgstore.MigrationFiles) + upFiles(pgjournal.MigrationFiles)

func upFiles(of fs.FS) int {
	names, err := fs.Glob(of, "*.up.sql")
	if err != nil || len(names) == 0 {
		panic("a package without migrations")
	}
	return len(names)
}

// A tool makes the tables that Migrate makes. They work, and Migrate finds nothing to do.
func TestToolFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, everything...)
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, steps)
		other := pgtest.NewPool(t, migrateAll)
		require.Equal(t, tables(t, other, "public"), tables(t, b.pool, "public"))
		before := numbers(t, b.pool)
		require.NoError(t, migrateAll(t.Context(), b.pool, ""))
		require.NoError(t, b.try(t, migrators.Latest))
		require.Equal(t, before, numbers(t, b.pool))
		requireWorks(t, b.pool, "")
	})
}

// Migrate was first. The tool's files find nothing to do, and the tool notes that it is done.
func TestMigrateFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		require.NoError(t, migrateAll(t.Context(), b.pool, ""))
		requireWorks(t, b.pool, "")
		before := numbers(t, b.pool)
		b.write(t, everything...)
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, steps)
		require.Equal(t, before, numbers(t, b.pool))
	})
}

// A tool takes the first step, and Migrate those after it. The tool goes on, and finds nothing to do.
func TestTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, everything...)
		require.NoError(t, b.try(t, 1))
		_, err := pgstore.Open(t.Context(), b.pool.Config(), pgstore.Config{AllowNonDurable: true})
		require.ErrorIs(t, err, pgstore.ErrSchemaOlder)
		require.NoError(t, migrateAll(t.Context(), b.pool, ""))
		before := numbers(t, b.pool)
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, steps)
		require.Equal(t, before, numbers(t, b.pool))
		requireWorks(t, b.pool, "")
	})
}

// Migrate has left the tables at version 1. The tool takes the step that is missing, and not the one that is there.
func TestToolGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		first, err := fs.ReadFile(pgstore.MigrationFiles, "0001_idempotency.up.sql")
		require.NoError(t, err)
		b.exec(t, string(first))
		b.write(t, "pgstore")
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, 2)
		require.NoError(t, migrateAll(t.Context(), b.pool, ""))
		require.Equal(t, tables(t, pgtest.NewPool(t, migrateAll), "public"), tables(t, b.pool, "public"))
	})
}

// The tool and Migrate at once wait for each other, and both are content.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, everything...)
		var both sync.WaitGroup
		var failed [2]error
		both.Go(func() { failed[0] = b.try(t, migrators.Latest) })
		both.Go(func() { failed[1] = migrateAll(t.Context(), b.pool, "") })
		both.Wait()
		require.Equal(t, [2]error{}, failed)
		b.requireVersion(t, steps)
		require.Equal(t, tables(t, pgtest.NewPool(t, migrateAll), "public"), tables(t, b.pool, "public"))
		requireWorks(t, b.pool, "")
	})
}

// The way back drops what the files made, and the way up makes it again.
func TestDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, everything...)
		require.NoError(t, b.try(t, migrators.Latest))
		require.NoError(t, b.try(t, 0))
		var left int
		require.NoError(t, b.pool.QueryRow(t.Context(), "select count(*) from pg_class c where "+ours).Scan(&left))
		require.Zero(t, left)
		require.NoError(t, b.try(t, migrators.Latest))
		requireWorks(t, b.pool, "")
	})
}

// A tool that knows only the first step does not take it back under the second one, which Migrate took.
func TestDown_notUnderALaterStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, "pgstore")
		require.NoError(t, b.try(t, 1))
		require.NoError(t, migrateAll(t.Context(), b.pool, ""))
		before := numbers(t, b.pool)
		require.ErrorContains(t, b.try(t, 0), "pgstore is at version 2: take back the later steps before step 1")
		require.Equal(t, before, numbers(t, b.pool))
		requireWorks(t, b.pool, "")
	})
}

// A step without the one before it is refused, and changes nothing.
func TestUp_withoutTheStepBefore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, "-after", "1", "pgstore")
		require.ErrorContains(t, b.try(t, migrators.Latest), "step 1 of pgstore must be taken before step 2")
		var left int
		require.NoError(t, b.pool.QueryRow(t.Context(), "select count(*) from pg_class c where "+ours).Scan(&left))
		require.Zero(t, left)
	})
}

// The files come after the service's own, and an upgrade brings later ones.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		own := map[string]string{
			"tern":           "create table own1 ();\n---- create above / drop below ----\ndrop table own1;\n",
			"goose":          "-- +goose Up\ncreate table own1 ();\n-- +goose Down\ndrop table own1;\n",
			"golang-migrate": "create table own1 ();\n",
		}[b.name]
		name := map[string]string{"tern": "001_own.sql", "goose": "00001_own.sql", "golang-migrate": "000001_own.up.sql"}[b.name]
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, name), []byte(own), 0o600))
		b.write(t, "-first", "2", "pgstore")
		require.NoError(t, b.try(t, 2)) // an earlier release had one step
		b.write(t, "-first", "4", "pgjournal")
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, 1+steps)
		requireWorks(t, b.pool, "")
	})
}

// The tables can be in a schema of their own. The tool's table stays where it is.
func TestSchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.write(t, append([]string{"-schema", "guard"}, everything...)...)
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, steps)
		require.Equal(t, tables(t, pgtest.NewPool(t, migrateAll), "public"), tables(t, b.pool, "guard"))
		require.NoError(t, migrateAll(t.Context(), b.pool, "guard"))
		requireWorks(t, b.pool, "guard")
		require.NoError(t, b.try(t, 0))
		var left int
		require.NoError(t, b.pool.QueryRow(t.Context(), "select count(*) from pg_class c where "+ours).Scan(&left))
		require.Zero(t, left)
		require.NoError(t, migrateAll(t.Context(), b.pool, "guard")) // Migrate first, in a schema
		require.NoError(t, b.try(t, migrators.Latest))
		b.requireVersion(t, steps)
	})
}
