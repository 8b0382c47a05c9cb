package pgkit_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

const insertT = `insert into t (id, value, sent)
values (@id, @value, case when (@value::int) > 0 then @lock_timeout end)
on conflict (id) do nothing
returning id`

// Each row is inserted, also where the statement has a place for more rows.
func TestRowsQuery(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	exec(t, pool, "create table t (id int primary key, value int, sent text)")
	one, err := pgkit.LoadDistributedQuery(fstest.MapFS{"insert.sql": {Data: []byte(insertT)}}, "insert.sql", "")
	require.NoError(t, err)
	many, err := one.Rows()
	require.NoError(t, err)
	texts := make(map[string]bool)
	for n := 1; n <= 256; n++ {
		rows := make([]pgx.NamedArgs, n)
		for i := range rows {
			rows[i] = pgx.NamedArgs{"id": 1000*n + i, "value": i, "lock_timeout": fmt.Sprint(i)}
		}
		st := many.Bind(rows)
		require.NoError(t, st.Err())
		require.NotEmpty(t, st.Settings())
		require.LessOrEqual(t, len(st.Args), 3*(n+n/8+1), "no more than an eighth is sent in vain")
		texts[st.SQL] = true
		tag, err := pool.Exec(t.Context(), st.SQL, st.Args...)
		require.NoError(t, err)
		require.EqualValues(t, n, tag.RowsAffected())
	}
	require.Len(t, texts, 48)
	require.Equal(t, 256, queryRow[int](t, pool, "select count(*) from t where value = 0 and sent is null"))
	require.Zero(t, queryRow[int](t, pool, "select count(*) from t where value > 0 and sent <> value::text"))

	require.ErrorIs(t, many.Bind([]pgx.NamedArgs{{"id": 1, "value": 1, "lock_timeout": "1"}, {"id": 2}}).Err(), pgkit.ErrStatement)
	for _, other := range []string{"insert into t select @id", "insert into t values (@id)", "select 1"} {
		q, err := pgkit.LoadDistributedQuery(fstest.MapFS{"other.sql": {Data: []byte(other)}}, "other.sql", "")
		require.NoError(t, err)
		_, err = q.Rows()
		require.ErrorIs(t, err, pgkit.ErrStatement, other)
	}
}
