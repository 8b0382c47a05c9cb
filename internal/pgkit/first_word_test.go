package pgkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func TestEndsTransaction(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"commit", " COMMIT and chain", "-- the end\nend", "/* /* a */ */ rollback", "rollback work", "abort", "begin", "start transaction",
		"prepare transaction 'x'", "select 1; commit; begin", "select 'a''; b'; commit", `select E'\'; '; commit`, "select $$;$$; commit",
		"select $a$ $$ ; $a$; commit", `select "a;b"; commit`, "select 1 -- ; \n; commit", "commit;",
	} {
		require.True(t, pgkit.EndsTransaction(sql), sql)
	}
	for _, sql := range []string{
		"", ";", "select 1", "insert into t values ('x; commit')", "savepoint s", "release s", "rollback to savepoint s", "rollback to s",
		"ROLLBACK WORK TO SAVEPOINT s", "rollback transaction to s", "prepare q as select 1", "do $$ begin perform 1; commit; end $$",
		"create function f() returns void language sql as $f$ select 1; commit $f$", "select 1 /* ; commit */", "select 1 -- ; commit",
		`select E'it\'s; commit'`, `select ";commit"`, "select $1; select $2", "insert into t values ('unclosed; commit", "committed",
		"select $1::text || '; commit'",
	} {
		require.False(t, pgkit.EndsTransaction(sql), sql)
	}
}
