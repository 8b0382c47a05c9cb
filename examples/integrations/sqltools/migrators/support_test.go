package migrators_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/integrations/sqltools/migrators"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// command is the built examples/migrations.
var command string

func TestMain(m *testing.M) {
	os.Exit(withCommand(m))
}

func withCommand(m *testing.M) int {
	dir, err := os.MkdirTemp("", "migrators")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "migrations")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", command, "github.com/fanonce/fanonce/examples/migrations")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	return m.Run()
}

// A tool brings a database to a version.
type tool func(ctx context.Context, url, dir string, to int) error

// tools have a table of their own for their version.
var tools = map[string]struct {
	run     tool
	version string // the query for it
}{
	"tern":           {migrators.Tern, "select version from public.schema_version"},
	"goose":          {migrators.Goose, "select max(version_id) from public.goose_db_version"},
	"golang-migrate": {migrators.GolangMigrate, "select version from public.schema_migrations where not dirty"},
}

// A bench is a tool with a database of the test's own, and a folder for its files.
type bench struct {
	name string
	run  tool
	sql  string // of the tool's version
	pool *pgxpool.Pool
	dir  string
}

// each runs a test for each tool.
func each(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bench{name, tool.run, tool.version, pgtest.NewPool(t, nil), t.TempDir()})
		})
	}
}

// write makes files with the command.
func (b bench) write(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, append([]string{"-tool", b.name, "-dir", b.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// try runs the tool.
func (b bench) try(t *testing.T, to int) error {
	t.Helper()
	return b.run(t.Context(), b.pool.Config().ConnString(), b.dir, to)
}

func (b bench) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// requireVersion compares what the tool has noted.
func (b bench) requireVersion(t *testing.T, want int) {
	t.Helper()
	var got int
	require.NoError(t, b.pool.QueryRow(t.Context(), b.sql).Scan(&got))
	require.Equal(t, want, got)
}

var everything = []string{"pgstore", "pgjournal"}

// migrateAll is what a service does that uses no tool.
func migrateAll(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	for _, step := range []func(context.Context, *pgxpool.Pool, string) error{pgstore.Migrate, pgjournal.Migrate} {
		if err := step(ctx, pool, schema); err != nil {
			return err
		}
	}
	return nil
}

// tables describes all that the packages made in a schema: columns with their settings, indexes, options of the tables.
func tables(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	return rows(t, pool, `select format('%s.%s %s %s %s %s %s %s %s', c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
			a.attnotnull, a.attidentity, a.attstattarget, a.attcompression, a.attcollation) from pg_class c
			join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where c.relkind in ('r', 'p') and c.relnamespace = $1::text::regnamespace and `+ours+`
		union all select replace(indexdef, schemaname || '.', '') from pg_indexes c(schemaname, relname) where schemaname = $1::text and `+ours+`
		union all select format('%s %s %s', relname, reloptions, relkind) from pg_class c where relnamespace = $1::text::regnamespace and `+ours+`
		union all select format('%s.%s %s', c.relname, d.adnum, pg_get_expr(d.adbin, d.adrelid)) from pg_attrdef d
			join pg_class c on c.oid = d.adrelid where c.relnamespace = $1::text::regnamespace and `+ours+` order by 1`, schema)
}

// ours are the tables that are not a tool's.
const ours = `c.relname ~ '^(idempotency|saga)'`

// numbers has the identity of each table, and when each step was taken: they change if a table is made again.
func numbers(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return rows(t, pool, `select format('%s %s', c.relname, c.oid) from pg_class c where `+ours+`
		union all select format('idempotency %s', v) from idempotency_version v
		union all select format('saga %s', v) from saga_version v order by 1`)
}

func rows(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	found, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	return lines
}

// booked is a saga that a run starts.
var booked = saga.MustDefine("booked", 1, func(b *saga.Builder[int, int]) {
	step := saga.StepFunc(b, "ledger.read", b.Input(), func(_ context.Context, c saga.Call[int]) (int, error) { return c.Input, nil }).ReadOnly()
	saga.Return(b, step.Output())
})

// requireWorks uses the tables: a run and its replay, and the start of a saga.
func requireWorks(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	store, err := pgstore.Open(t.Context(), pool.Config(), pgstore.Config{Schema: schema, AllowNonDurable: true})
	require.NoError(t, err)
	defer store.Close()
	journal, err := pgjournal.Open(t.Context(), pool.Config(), pgjournal.Config{Schema: schema, AllowNonDurable: true})
	require.NoError(t, err)
	journal.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	require.NoError(t, err)
	task := server.Task{Name: "book", Scope: "acme", Effect: server.Transactional}
	for _, want := range []bool{false, true} {
		_, replayed, err := server.Do(t.Context(), guard, task, childkey.MustParse("k"), 0, func(ctx context.Context, _ int) (int, error) {
			_, err := pgjournal.Start(ctx, pgstore.Tx(ctx), booked, childkey.MustParse("k"), 1, pgjournal.StartConfig{Schema: schema})
			return 1, err
		})
		require.NoError(t, err)
		require.Equal(t, want, replayed)
	}
	var sagas int
	table := strings.TrimPrefix(schema+".saga", ".")
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&sagas))
	require.Equal(t, 1, sagas)
}
