package pgstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Both forms of a statement are valid, and return the same columns, except where the store reads
// them in another way.
func TestSQL_forms(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgstore.Migrate)
	conn, err := look.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	describe := func(load func(fs.FS, string, string) (pgkit.Query, error), name string) *pgconn.StatementDescription {
		t.Helper()
		q, err := load(os.DirFS("."), "query/"+name+".sql", "")
		require.NoError(t, err)
		d, err := conn.Conn().Prepare(t.Context(), "", q.SQL())
		require.NoError(t, err, name)
		return d
	}
	columns := func(d *pgconn.StatementDescription) (all []string) {
		for _, f := range d.Fields {
			all = append(all, f.Name)
		}
		return all
	}
	names, err := filepath.Glob("query/*.sql")
	require.NoError(t, err)
	for _, file := range names {
		switch name := strings.TrimSuffix(filepath.Base(file), ".sql"); name {
		case "size", "reader_size": // they call a function of Citus
		case "settle", "settle_tx", "settle_tx_partitioned", "sweep", "drop_answers":
			describe(pgkit.LoadDistributedQuery, name)
		default:
			plain, distributed := describe(pgkit.LoadQuery, name), describe(pgkit.LoadDistributedQuery, name)
			require.Equal(t, columns(plain), columns(distributed), name)
		}
	}
}
