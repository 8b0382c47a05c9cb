package pgkit_test

import (
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgkit"
)

func file(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }

// migrations has so many versions, one or two.
func migrations(versions int) pgkit.Migrations {
	files := fstest.MapFS{
		"0001_make.up.sql": file(`create table thing (a int); create table demo_version (version int primary key);
			insert into demo_version values (1);`),
		"0001_make.down.sql": file("drop table thing; drop table demo_version;"),
	}
	if versions > 1 {
		files["0002_grow.up.sql"] = file("alter table thing add b int; insert into demo_version values (2);")
		files["0002_grow.down.sql"] = file("alter table thing drop b; delete from demo_version where version = 2;")
	}
	return pgkit.Migrations{Component: "demo", Files: files}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "audit", "user"} {
		t.Run("schema "+schema, func(t *testing.T) {
			t.Parallel()
			ctx, pool := t.Context(), newPool(t)
			one, two := migrations(1), migrations(2)

			var wrong *pgkit.SchemaError
			err := two.Check(ctx, pool, schema)
			require.ErrorIs(t, err, pgkit.ErrSchemaMissing)
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, pgkit.SchemaError{Component: "demo", Schema: schema, Have: 0, Want: 2}, *wrong)

			require.NoError(t, one.Up(ctx, pool, schema))
			require.NoError(t, one.Check(ctx, pool, schema))
			err = two.Check(ctx, pool, schema)
			require.ErrorIs(t, err, pgkit.ErrSchemaOlder)
			require.ErrorContains(t, err, "version 1, want 2")

			require.NoError(t, two.Up(ctx, pool, schema))
			require.NoError(t, two.Up(ctx, pool, schema), "again")
			require.NoError(t, two.Check(ctx, pool, schema))
			err = one.Check(ctx, pool, schema)
			require.ErrorIs(t, err, pgkit.ErrSchemaNewer)
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, pgkit.SchemaError{Component: "demo", Schema: schema, Have: 2, Want: 1}, *wrong)
			require.ErrorIs(t, one.Up(ctx, pool, schema), pgkit.ErrSchemaNewer)
			require.ErrorIs(t, one.Down(ctx, pool, schema, 0), pgkit.ErrSchemaNewer)

			require.NoError(t, two.Down(ctx, pool, schema, 1))
			require.NoError(t, one.Check(ctx, pool, schema))
			require.NoError(t, two.Down(ctx, pool, schema, 0))
			require.ErrorIs(t, two.Check(ctx, pool, schema), pgkit.ErrSchemaMissing)
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
	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("alter table thing add b int; select 1/0;")
	require.Error(t, m.Up(t.Context(), pool, ""))
	require.ErrorIs(t, m.Check(t.Context(), pool, ""), pgkit.ErrSchemaMissing)

	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("alter table thing add b int;")
	require.ErrorIs(t, m.Up(t.Context(), pool, ""), pgkit.ErrMigrations)
	m.Files.(fstest.MapFS)["0002_grow.up.sql"] = file("insert into demo_version values (7)")
	require.ErrorIs(t, m.Up(t.Context(), pool, ""), pgkit.ErrMigrations)
	require.ErrorIs(t, m.Check(t.Context(), pool, ""), pgkit.ErrSchemaMissing)
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
		{"an empty file", func(f fstest.MapFS) { f["0002_grow.up.sql"] = file("") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := migrations(2)
			tt.edit(m.Files.(fstest.MapFS))
			_, err := m.Latest()
			require.ErrorIs(t, err, pgkit.ErrMigrations)
		})
	}
	pool := newPool(t)
	for _, schema := range []string{"pg_x", "X", `"`, "public; drop table x", strings.Repeat("a", 64)} {
		require.ErrorIs(t, good.Up(t.Context(), pool, schema), pgkit.ErrSchemaName, schema)
		require.ErrorIs(t, good.Down(t.Context(), pool, schema, 0), pgkit.ErrSchemaName, schema)
		require.ErrorIs(t, good.Check(t.Context(), pool, schema), pgkit.ErrSchemaName, schema)
	}
	require.ErrorIs(t, good.Down(t.Context(), pool, "", 3), pgkit.ErrMigrations)
}
