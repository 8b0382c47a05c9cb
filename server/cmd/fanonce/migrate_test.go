package main_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// everything makes the tables of all components.
func everything(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	return pgjournal.Migrate(ctx, pool, schema)
}

type migrations struct {
	Components []struct {
		Component       string
		Version, Latest int
		State           string
	}
	DryRun bool `json:"dry_run"`
}

func (m migrations) states() map[string]string {
	out := map[string]string{}
	for _, c := range m.Components {
		out[c.Component] = c.State
	}
	return out
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	on(t, url, "migrate", "status").requireCode(t, 1)
	require.Contains(t, on(t, url, "migrate", "up").requireCode(t, 2).stderr, "name what to make")

	dry := parse[migrations](t, on(t, url, "migrate", "up", "--component", "keys", "--dry-run", "--json").requireCode(t, 0))
	require.Equal(t, map[string]string{"keys": "would migrate"}, dry.states())
	require.True(t, dry.DryRun)
	on(t, url, "migrate", "status").requireCode(t, 1)

	done := parse[migrations](t, on(t, url, "migrate", "up", "--component", "keys", "--json").requireCode(t, 0))
	require.Equal(t, map[string]string{"keys": "migrated"}, done.states())
	require.Equal(t, done.Components[0].Latest, done.Components[0].Version, "the version after the migration")
	r := on(t, url, "migrate", "status").requireCode(t, 0)
	golden(t, "migrate_status.txt", r.stdout)
	on(t, url, "migrate", "status", "--component", "sagas").requireCode(t, 1)
	golden(t, "migrate_up.txt", on(t, url, "migrate", "up").requireCode(t, 0).stdout)
	on(t, url, "migrate", "up", "--component", "sagas", "--schema", "audit").requireCode(t, 0)
	on(t, url, "migrate", "status", "--component", "sagas", "--schema", "audit").requireCode(t, 0)
}

func TestMigrate_otherVersions(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	on(t, url, "migrate", "up", "--component", "keys").requireCode(t, 0)
	execute(t, url, "insert into idempotency_version (version, oldest) values (100, 1)")
	require.Equal(t, "ahead", parse[migrations](t, on(t, url, "migrate", "status", "--json").requireCode(t, 0)).states()["keys"])
	on(t, url, "migrate", "up").requireCode(t, 0)
	execute(t, url, "update idempotency_version set oldest = 100 where version = 100")
	require.Equal(t, "newer", parse[migrations](t, on(t, url, "migrate", "status", "--json").requireCode(t, 1)).states()["keys"])
	require.Contains(t, on(t, url, "migrate", "up").requireCode(t, 1).stderr, "use a newer fanonce")
}

// The printed SQL makes the same tables as up, and the way back leaves none.
func TestMigratePrint(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, fanonce(t, "migrate", "print", "--schema", "audit").requireCode(t, 0).stdout)
	on(t, url, "migrate", "status", "--component", "keys,sagas", "--schema", "audit").requireCode(t, 0)
	execute(t, url, fanonce(t, "migrate", "print", "--down", "--schema", "audit").requireCode(t, 0).stdout)
	on(t, url, "migrate", "status", "--schema", "audit").requireCode(t, 1)
	var tables int
	require.NoError(t, dial(t, url).QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'audit'").Scan(&tables))
	require.Zero(t, tables)

	steps := parse[[]struct {
		Component, Name, SQL string
		Version              int
	}](t, fanonce(t, "migrate", "print", "--component", "keys", "--from", "1", "--json").requireCode(t, 0))
	require.Equal(t, 2, steps[0].Version)
	require.Contains(t, steps[0].SQL, "idempotency_attention")
	require.Contains(t, fanonce(t, "migrate", "print", "--component", "keys", "--roles").stdout, "create role fanonce_runtime")
}

// A deploy makes the tables and the roles by one command, each time again, and a service works with the rights that it gets.
func TestMigrateUp_roles(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true}) // roles belong to the whole server
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	url := cluster.URL("")
	up := []string{"migrate", "up", "--component", "keys,sagas", "--schema", "once", "--roles"}
	on(t, url, append(up, "--dry-run")...).requireCode(t, 0)
	var exists bool
	require.NoError(t, dial(t, url).QueryRow(t.Context(), "select to_regrole('fanonce_owner') is not null").Scan(&exists))
	require.False(t, exists)
	on(t, url, up...).requireCode(t, 0)

	execute(t, url, "create role orders login password 'p' in role fanonce_runtime", "create role deploy login password 'p' createrole in role fanonce_owner")
	as := func(role string) string { return strings.Replace(url, "postgres:"+passwordOf(t, url), role+":p", 1) }
	on(t, as("deploy"), up...).requireCode(t, 0)
	require.Contains(t, on(t, as("orders"), up...).requireCode(t, 2).stderr, "keys: the roles: ")
	require.Contains(t, on(t, as("orders"), "keys", "list", "--schema", "once").requireCode(t, 0).stdout, "ID")
	execute(t, as("orders"), "delete from once.idempotency", "select from once.saga")
}

func passwordOf(t *testing.T, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return cfg.Password
}

// A migration that waits for a lock and is interrupted has changed nothing, and says so.
func TestMigrateUp_interrupted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, fanonce(t, "migrate", "print", "--component", "keys").stdout,
		"drop table idempotency_attention", "delete from idempotency_version where version = 2")
	holder := dial(t, url)
	_, err := holder.Exec(t.Context(), "begin; lock table idempotency in access exclusive mode")
	require.NoError(t, err)

	cmd, stdout, stderr := call{database: url, args: []string{"migrate", "up"}}.command(t.Context())
	require.NoError(t, cmd.Start())
	watch := dial(t, url)
	require.Eventually(t, func() bool {
		var waits int
		err := watch.QueryRow(t.Context(), "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()").Scan(&waits)
		return err == nil && waits > 0
	}, patience, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode(), stderr.String())
	require.NotEqual(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal())
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), "keys: nothing of it was changed")
	_, err = holder.Exec(t.Context(), "commit")
	require.NoError(t, err)
	require.Equal(t, "old", parse[migrations](t, on(t, url, "migrate", "status", "--json").requireCode(t, 1)).states()["keys"])
	on(t, url, "migrate", "up").requireCode(t, 0)
}

// up and print make the same optional indexes. Only --component reader makes them, and status counts them.
func TestMigrateReader(t *testing.T) {
	t.Parallel()
	url, printed := pgtest.URL(t), pgtest.URL(t)
	require.Contains(t, on(t, url, "migrate", "up", "--component", "reader").requireCode(t, 2).stderr, "there are no tables of keys or sagas")
	for _, u := range []string{url, printed} {
		on(t, u, "migrate", "up", "--component", "keys,sagas").requireCode(t, 0)
	}
	on(t, url, "migrate", "status", "--component", "reader").requireCode(t, 1)
	require.Equal(t, "missing", parse[migrations](t, on(t, url, "migrate", "status", "--json").requireCode(t, 0)).states()["reader"])
	dry := parse[migrations](t, on(t, url, "migrate", "up", "--component", "reader", "--dry-run", "--json").requireCode(t, 0))
	require.Equal(t, map[string]string{"reader": "would migrate"}, dry.states())
	require.Empty(t, readerIndexes(t, url))

	done := parse[migrations](t, on(t, url, "migrate", "up", "--component", "reader", "--json").requireCode(t, 0))
	require.Equal(t, map[string]string{"reader": "migrated"}, done.states())
	require.Equal(t, done.Components[0].Latest, done.Components[0].Version)
	execute(t, printed, statements(fanonce(t, "migrate", "print", "--component", "reader").requireCode(t, 0).stdout)...)
	indexes := readerIndexes(t, url)
	require.Len(t, indexes, done.Components[0].Latest)
	require.Equal(t, indexes, readerIndexes(t, printed))
	for _, u := range []string{url, printed} {
		require.Equal(t, "current", parse[migrations](t, on(t, u, "migrate", "status", "--component", "reader", "--json").requireCode(t, 0)).states()["reader"])
	}

	// An index that an interrupt left is none, and the next up makes it anew.
	execute(t, url, "update pg_index set indisvalid = false where indexrelid = 'idempotency_created_at'::regclass")
	half := parse[migrations](t, on(t, url, "migrate", "status", "--component", "reader", "--json").requireCode(t, 1))
	require.Equal(t, "old", half.states()["reader"])
	on(t, url, "migrate", "up", "--component", "reader").requireCode(t, 0)
	on(t, url, "migrate", "status", "--component", "reader").requireCode(t, 0)
	execute(t, url, statements(fanonce(t, "migrate", "print", "--component", "reader", "--down").requireCode(t, 0).stdout)...)
	require.Empty(t, readerIndexes(t, url))
}

// statements returns those of a text, without its comments: an index cannot be made concurrently beside others.
func statements(sql string) (out []string) {
	for _, line := range strings.Split(sql, "\n") {
		if line != "" && !strings.HasPrefix(line, "--") {
			out = append(out, line)
		}
	}
	return out
}

// readerIndexes returns the valid optional indexes of a database, as statements.
func readerIndexes(t *testing.T, url string) []string {
	t.Helper()
	rows, err := dial(t, url).Query(t.Context(), `select pg_get_indexdef(indexrelid) from pg_index
		where indisvalid and indexrelid::regclass::text = any ('{idempotency_created_at,idempotency_children,saga_created_at}') order by 1`)
	require.NoError(t, err)
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return indexes
}
