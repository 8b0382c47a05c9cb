package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The variables and service files of psql lead to the database, as they lead psql there.
func TestAddress_ofPsql(t *testing.T) {
	t.Parallel()
	url := database(t)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	port, schema := fmt.Sprint(cfg.Port), cfg.RuntimeParams["search_path"]
	home, system := t.TempDir(), t.TempDir()
	service := "host=" + cfg.Host + "\nport=" + port + "\nuser=" + cfg.User + "\ndbname=" + cfg.Database + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, ".pg_service.conf"), []byte("[orders]\n"+service), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(system, "pg_service.conf"), []byte("[payments]\n"+service), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "other"), []byte("[stock]\n"+service), 0o600))
	server := []string{"PGHOST=" + cfg.Host, "PGPORT=" + port, "PGUSER=" + cfg.User, "PGPASSWORD=" + cfg.Password}
	files := []string{"HOME=" + home, "PGPASSWORD=" + cfg.Password, "PGSYSCONFDIR=" + system}
	for _, tt := range []struct {
		name, database string
		env            []string
		code           int
		want           string // on stderr
	}{
		{"variables", "", append(server, "PGDATABASE="+cfg.Database), 0, ""},
		{"a name, and variables", cfg.Database, server, 0, ""},
		{"a connection string, and variables", "dbname=" + cfg.Database, server, 0, ""},
		{"a short URL, and variables", "postgres:///" + cfg.Database, server, 0, ""},
		{"a URL before the variables", url, []string{"PGHOST=127.0.0.1", "PGPORT=1"}, 0, ""},
		{"PGSERVICE", "", append(files, "PGSERVICE=orders"), 0, ""},
		{"a service of --database", "service=orders", files, 0, ""},
		{"a service of a URL", "postgres://?service=orders", files, 0, ""},
		{"a service of the machine", "", append(files, "PGSERVICE=payments"), 0, ""},
		{"a service of the machine, in a URL", "postgres://?service=payments", files, 0, ""},
		{"PGSERVICEFILE", "", append(files, "PGSERVICE=stock", "PGSERVICEFILE="+filepath.Join(home, "other")), 0, ""},
		{"no such service", "", append(files, "PGSERVICE=nope"), 2, `.pg_service.conf has no service "nope"`},
		{"no such file", "", append(files, "PGSERVICE=orders", "PGSERVICEFILE="+filepath.Join(home, "none")), 2, "no such file"},
		{"nothing", "", nil, 2, "no database: set DATABASE_URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"keys", "list"}
			if tt.database != "" {
				args = append(args, "--database", tt.database)
			}
			if schema != "" {
				args = append(args, "--schema", strings.Trim(schema, `"`))
			}
			r := call{args: args, env: tt.env}.run(t).requireCode(t, tt.code)
			require.Contains(t, r.stderr, tt.want)
		})
	}
}
