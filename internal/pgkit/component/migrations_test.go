package component_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
)

func file(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }

// migrations has so many versions, one or two.
func migrations(versions int) component.Migrations {
	files := fstest.MapFS{
		"0001_make.up.sql": file(`create table thing (a int); create table demo_version (version int primary key, oldest int not null);
			insert into demo_version (version, oldest) values (1, 1);`),
		"0001_make.down.sql": file("drop table thing; drop table demo_version;"),
	}
	if versions > 1 {
		files["0002_grow.up.sql"] = file("alter table thing add b int; insert into demo_version (version, oldest) values (2, 2);")
		files["0002_grow.down.sql"] = file("alter table thing drop b; delete from demo_version where version = 2;")
	}
	return component.Migrations{Component: "demo", Files: files}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "audit", "user"} {
		t.Run("schema "+schema, func(t *testing.T) {
			t.Parallel()
			ctx, pool := t.Context(), newPool(t)
			one, two := migrations(1), migrations(2)

			var wrong *component.SchemaError
			err := two.Check(ctx, pool, schema)
			require.ErrorIs(t, err, component.ErrSchemaMissing)
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, component.SchemaError{Component: "demo", Schema: schema, Have: 0, Want: 2}, *wrong)

			require.NoError(t, one.Up(ctx, pool, schema))
			require.NoError(t, one.Check(ctx, pool, schema))
			err = two.Check(ctx, pool, schema)
			require.ErrorIs(t, err, component.ErrSchemaOlder)
			require.ErrorContains(t, err, "version 1, want 2")

			require.NoError(t, two.Up(ctx, pool, schema))
			require.NoError(t, two.Up(ctx, pool, schema), "again")
			require.NoError(t, two.Check(ctx, pool, schema))
			err = one.Check(ctx, pool, schema)
			require.ErrorIs(t, err, component.ErrSchemaNewer)
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, component.SchemaError{Component: "demo", Schema: schema, Have: 2, Oldest: 2, Want: 1}, *wrong)
			require.ErrorIs(t, one.Up(ctx, pool, schema), component.ErrSchemaNewer)
			require.ErrorIs(t, one.Down(ctx, pool, schema, 0), component.ErrSchemaNewer)

			require.NoError(t, two.Down(ctx, pool, schema, 1))
			require.NoError(t, one.Check(ctx, pool, schema))
			require.NoError(t, two.Down(ctx, pool, schema, 0))
			require.ErrorIs(t, two.Check(ctx, pool, schema), component.ErrSchemaMissing)
		})
	}
}

func TestMigrations_atOnce(t *testing.T) {
	t.Parallel()
	pool, m := newPool(t), migrations(2)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = m.Up(t.Context(), pool, "audit") })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, m.Check(t.Context(), pool, "audit"))
}

// A step that fails leaves the tables as they were.
func TestMigrations_failingStep(t *testing.T) {
	t.Parallel()
	pool, m := newPool(t), migrations(2)
	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("alter table thing add b int; insert into demo_version (version, oldest) values (2, 2); select 1/0;")
	require.Error(t, m.Up(t.Context(), pool, ""))
	require.ErrorIs(t, m.Check(t.Context(), pool, ""), component.ErrSchemaMissing)

	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("alter table thing add b int; -- insert into demo_version (version, oldest) values (2, 2)")
	require.ErrorIs(t, m.Up(t.Context(), pool, ""), component.ErrMigrations)
	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("insert into demo_version (version, oldest) values (7, 7)")
	require.ErrorIs(t, m.Up(t.Context(), pool, ""), component.ErrMigrations)
	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("insert into demo_version (version, oldest) values (2, 3)")
	require.ErrorIs(t, m.Up(t.Context(), pool, ""), component.ErrMigrations, "no program before this step, and not this one")
	require.ErrorIs(t, m.Check(t.Context(), pool, ""), component.ErrSchemaMissing)
}

func TestMigrations_refused(t *testing.T) {
	t.Parallel()
	good := migrations(2)
	for _, tt := range []struct {
		name string
		edit func(fstest.MapFS)
	}{
		{"a gap", func(f fstest.MapFS) { f["0004_x.up.sql"], f["0004_x.down.sql"] = file(""), file("") }},
		{"no way back", func(f fstest.MapFS) { delete(f, "0002_grow.down.sql") }},
		{"a stranger", func(f fstest.MapFS) { f["README"] = file("") }},
		{"number 0", func(f fstest.MapFS) { f["0000_x.up.sql"], f["0000_x.down.sql"] = file(""), file("") }},
		{"silent on who can go on", func(f fstest.MapFS) {
			f["0002_grow.up.sql"] = file("alter table thing add b int; insert into demo_version (version) values (2)")
		}},
		{"an empty file", func(f fstest.MapFS) { f["0002_grow.up.sql"] = file("") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := migrations(2)
			tt.edit(m.Files.(fstest.MapFS))
			_, err := m.Latest()
			require.ErrorIs(t, err, component.ErrMigrations)
		})
	}
	pool := newPool(t)
	for _, schema := range []string{"pg_x", "X", `"`, "public; drop table x", strings.Repeat("a", 64)} {
		require.ErrorIs(t, good.Up(t.Context(), pool, schema), pgkit.ErrSchemaName, schema)
		require.ErrorIs(t, good.Down(t.Context(), pool, schema, 0), pgkit.ErrSchemaName, schema)
		require.ErrorIs(t, good.Check(t.Context(), pool, schema), pgkit.ErrSchemaName, schema)
	}
	require.ErrorIs(t, good.Down(t.Context(), pool, "", 3), component.ErrMigrations)
}

// A step says which programs can go on beside it. They are ready, and their Up leaves the
// tables alone; a program that cannot use the tables is told so.
func TestMigrations_newerThatFits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		oldest []string // of versions 2 and 3
		fits   bool
	}{
		{"adds", []string{"1", "1"}, true},
		{"takes away", []string{"1", "3"}, false},
		{"took away before", []string{"2", "1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, pool := t.Context(), newPool(t)
			old, next := migrations(1), migrations(2)
			files := next.Files.(fstest.MapFS)
			files["0002_grow.up.sql"] = file("alter table thing add b int; insert into demo_version (version, oldest) values (2, " + tt.oldest[0] + ");")
			files["0003_more.up.sql"] = file("alter table thing add c int; insert into demo_version (version, oldest) values (3, " + tt.oldest[1] + ");")
			files["0003_more.down.sql"] = file("alter table thing drop c; delete from demo_version where version = 3;")
			require.NoError(t, old.Up(ctx, pool, ""))
			require.NoError(t, next.Up(ctx, pool, ""))
			require.NoError(t, next.Check(ctx, pool, ""))
			require.ErrorIs(t, old.Down(ctx, pool, "", 0), component.ErrSchemaNewer, "it does not know the steps back")
			for what, err := range map[string]error{"Check": old.Check(ctx, pool, ""), "Up": old.Up(ctx, pool, "")} {
				if tt.fits {
					require.NoError(t, err, what)
					continue
				}
				require.ErrorIs(t, err, component.ErrSchemaNewer, what)
				var wrong *component.SchemaError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, 3, wrong.Have)
				require.Greater(t, wrong.Oldest, 1)
				require.ErrorContains(t, err, "deploy one")
			}
			require.NoError(t, next.Down(ctx, pool, "", 1), "the way back")
			require.NoError(t, old.Check(ctx, pool, ""))
		})
	}
}

// Two processes that migrate the same tables take the same lock, also if one names the schema
// and the other leaves it to the search_path.
func TestMigrations_sameSchemaByTwoNames(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	m := migrations(1)
	m.Files.(fstest.MapFS)["0001_make.up.sql"] = file(`select pg_advisory_xact_lock(7); create table thing (a int);
		create table demo_version (version int primary key, oldest int not null); insert into demo_version (version, oldest) values (1, 1);`)
	slow, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = slow.Rollback(context.Background()) }()
	_, err = slow.Exec(t.Context(), "select pg_advisory_xact_lock(7)")
	require.NoError(t, err)
	errs := make(chan error, 2)
	for _, schema := range []string{"", "public"} {
		go func() { errs <- m.Up(t.Context(), pool, schema) }()
	}
	until(t, "one migrates and the other waits for it", func() bool {
		return queryRow[int](t, pool, "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) and not granted") == 2
	})
	require.NoError(t, slow.Rollback(t.Context()))
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

// Somebody reads the table for a long time, as a backup does. Other statements do not queue behind
// the migration.
func TestMigrations_behindAReader(t *testing.T) {
	t.Parallel()
	pool, m := newPool(t), migrations(2)
	require.NoError(t, migrations(1).Up(t.Context(), pool, ""))
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.Background()) }()
	_, err = reader.Exec(t.Context(), "select from thing")
	require.NoError(t, err)

	migrated := make(chan error, 1)
	go func() { migrated <- m.Up(t.Context(), pool, "") }()
	waiting := func() bool {
		return queryRow[bool](t, pool, `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'relation' and query like 'alter table thing%')`)
	}
	for range 2 {
		until(t, "the migration waits for the table", waiting)
		until(t, "it has given up", func() bool { return !waiting() })
		exec(t, pool, "insert into thing values (1)")
	}
	require.Empty(t, migrated)
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-migrated)
	require.NoError(t, m.Check(t.Context(), pool, ""))

	reader, err = pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), "select from thing")
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	err = m.Down(ctx, pool, "", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, m.Check(t.Context(), pool, ""), "nothing changed")
}
