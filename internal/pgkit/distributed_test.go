package pgkit_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

var forms = fstest.MapFS{
	"query/settle.sql": {Data: []byte(`-- Settle ends a run.
update /*schema*/t set state = @state
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
where s.lock_timeout is not null and -- plain
--distributed where
  key = @key`)},
	"query/size.sql":             {Data: []byte("select pg_total_relation_size('/*schema*/t')")},
	"query/distributed/size.sql": {Data: []byte("select citus_total_relation_size('/*schema*/t')")},
}

// One file has both forms of a statement.
func TestLoadDistributedQuery(t *testing.T) {
	t.Parallel()
	sql := func(load func(name string) (pgkit.Query, error), name string) string {
		t.Helper()
		q, err := load(name)
		require.NoError(t, err)
		return q.SQL()
	}
	plain := func(name string) (pgkit.Query, error) { return pgkit.LoadQuery(forms, name, "s") }
	distributed := func(name string) (pgkit.Query, error) { return pgkit.LoadDistributedQuery(forms, name, "s") }

	require.Equal(t, "update \"s\".t set state = $1\nfrom (select set_config('lock_timeout', $2, true) as lock_timeout) s\n"+
		"where s.lock_timeout is not null and\n  key = $3", sql(plain, "query/settle.sql"))
	require.Equal(t, "update \"s\".t set state = $1\nwhere\n  key = $2", sql(distributed, "query/settle.sql"))
	require.Equal(t, `select pg_total_relation_size('"s".t')`, sql(plain, "query/size.sql"))
	require.Equal(t, `select citus_total_relation_size('"s".t')`, sql(distributed, "query/size.sql"))

	_, err := distributed("query/none.sql")
	require.ErrorIs(t, err, pgkit.ErrStatement)
}

// The lock timeout of a statement for distributed tables goes before it, as a statement that
// reaches the workers.
func TestQuery_distributedSettings(t *testing.T) {
	t.Parallel()
	q, err := pgkit.LoadDistributedQuery(forms, "query/settle.sql", "")
	require.NoError(t, err)
	st := q.Bind(pgx.NamedArgs{"state": 2, "key": 3, "lock_timeout": "10"})
	require.NoError(t, st.Err())
	require.Equal(t, []any{2, 3}, st.Args)
	require.Equal(t, []string{"set local citus.propagate_set_commands = 'local'", "set local lock_timeout = '10'", "set local citus.propagate_set_commands to default"}, st.Settings())
	require.Empty(t, q.Bind(pgx.NamedArgs{"state": 2, "key": 3, "lock_timeout": nil}).Settings())
	require.ErrorIs(t, q.Bind(pgx.NamedArgs{"state": 2, "lock_timeout": "10"}).Err(), pgkit.ErrStatement)
}
