package pgtest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// keywords rewrites a URL as the other form that pgx takes.
func keywords(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	password, _ := u.User.Password()
	return fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=postgres sslmode=disable", u.Hostname(), u.Port(), u.User.Username(), password)
}

func databaseNames(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select datname::text from pg_database where datname like 'pgtest%' order by 1")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// Not parallel: it sets the environment.
func TestStart_onTheServerOfDatabaseURL(t *testing.T) {
	server := startPrivate(t, pgtest.Config{})
	admin := connect(t, server.URL(""))
	forms := []struct{ name, url string }{
		{"URL", server.URL("")},
		{"keywords", keywords(t, server.URL(""))},
	}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Setenv(pgtest.EnvDatabaseURL, form.url)
			cluster, err := pgtest.Start(t.Context(), pgtest.Config{})
			require.NoError(t, err)
			require.False(t, cluster.Private())
			require.ErrorIs(t, cluster.Kill(), pgtest.ErrNotPrivate)
			require.ErrorIs(t, cluster.Restart(t.Context()), pgtest.ErrNotPrivate)

			dsn, err := cluster.CreateDatabase(t.Context(), "it's")
			require.NoError(t, err)
			var name string
			require.NoError(t, connect(t, dsn).QueryRow(t.Context(), "select current_database()").Scan(&name))
			if !strings.HasPrefix(name, "pgtest_") || !strings.HasSuffix(name, "_it's") {
				t.Errorf("database is called %q, want pgtest_…_it's", name)
			}
			require.Equal(t, []string{name}, databaseNames(t, admin))
			require.NoError(t, cluster.Stop())
			require.Empty(t, databaseNames(t, admin))
		})
	}
}

// Not parallel: it sets the environment.
func TestStart_databaseURLOfNobody(t *testing.T) {
	t.Setenv(pgtest.EnvDatabaseURL, "postgres://u:secret@127.0.0.1:1/x?sslmode=disable")
	_, err := pgtest.Start(t.Context(), pgtest.Config{})
	require.ErrorContains(t, err, "DATABASE_URL")
	require.NotContains(t, err.Error(), "secret")
}
