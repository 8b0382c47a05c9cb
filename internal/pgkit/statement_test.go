package pgkit_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

var statements = fstest.MapFS{
	"move.sql": {Data: []byte("-- Moves a@b.\nupdate /*schema*/t set a = @a\n  -- twice\nwhere k = @key and b <> @a\n")},
}

func TestLoadQuery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, want string }{
		{"no schema", "", "update t set a = $1\nwhere k = $2 and b <> $1"},
		{"a schema", "audit", "update \"audit\".t set a = $1\nwhere k = $2 and b <> $1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, err := pgkit.LoadQuery(statements, "move.sql", tt.schema)
			require.NoError(t, err)
			if got := q.SQL(); got != tt.want {
				t.Errorf("SQL = %q, want %q", got, tt.want)
			}
		})
	}
	_, err := pgkit.LoadQuery(statements, "move.sql", "No")
	require.ErrorIs(t, err, pgkit.ErrSchemaName)
	_, err = pgkit.LoadQuery(statements, "absent.sql", "")
	require.ErrorIs(t, err, pgkit.ErrStatement)
}

func TestLoadQuery_columns(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"query/read.sql":             {Data: []byte("select now() as now, /*record*/ from /*schema*/t")},
		"query/join.sql":             {Data: []byte("select /*i.record*/ from t i")},
		"query/distributed/join.sql": {Data: []byte("select /*brief*/ from t")},
		"query/wrong.sql":            {Data: []byte("select /*recrod*/ from t")},
		"query/columns/brief.sql":    {Data: []byte("-- Brief has a few.\nid, made_at\n")},
		"query/columns/record.sql":   {Data: []byte("/*brief*/, body\n")},
	}
	for file, want := range map[string]string{
		"query/read.sql": "select now() as now, id, made_at, body from t",
		"query/join.sql": "select i.id, i.made_at, i.body from t i",
	} {
		q, err := pgkit.LoadQuery(files, file, "")
		require.NoError(t, err)
		require.Equal(t, want, q.SQL())
	}
	q, err := pgkit.LoadDistributedQuery(files, "query/join.sql", "")
	require.NoError(t, err)
	require.Equal(t, "select id, made_at from t", q.SQL())
	_, err = pgkit.LoadQuery(files, "query/wrong.sql", "")
	require.ErrorIs(t, err, pgkit.ErrStatement)
}

func TestQuery_Bind(t *testing.T) {
	t.Parallel()
	q, err := pgkit.LoadQuery(statements, "move.sql", "")
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		args pgx.NamedArgs
		want error
	}{
		{"all", pgx.NamedArgs{"a": 1, "key": 2}, nil},
		{"one missing", pgx.NamedArgs{"a": 1}, pgkit.ErrStatement},
		{"misspelled", pgx.NamedArgs{"a": 1, "kee": 2}, pgkit.ErrStatement},
		{"one too many", pgx.NamedArgs{"a": 1, "key": 2, "c": 3}, pgkit.ErrStatement},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := q.Bind(tt.args)
			require.ErrorIs(t, st.Err(), tt.want)
			if tt.want == nil {
				require.Equal(t, []any{1, 2}, st.Args)
			}
		})
	}
}

func ExampleLoadQuery() {
	q, err := pgkit.LoadQuery(statements, "move.sql", "audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	st := q.Bind(pgx.NamedArgs{"key": "k", "a": 7})
	fmt.Println(st.SQL, st.Args)
	// Output:
	// update "audit".t set a = $1
	// where k = $2 and b <> $1 [7 k]
}
