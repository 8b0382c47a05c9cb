package pgstore_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

var (
	sqlComment = regexp.MustCompile(`(?m)--.*$`)
	// State of a session is lost behind a pooler, or another client finds it.
	// now() stands still from BEGIN, and a lease must not.
	sessionWords = regexp.MustCompile(`(?i)\b(listen|notify|pg_notify|advisory|prepare|temp|temporary|set\s+session|now\s*\(\))`)
	// Notifications take one lock for the whole server at commit. So a
	// statement may notify only if the record says that somebody waits.
	notifyIfAwaited = regexp.MustCompile(`case when (i\.)?waiters then pg_notify\('fanonce_' \|\| (i\.)?tableoid, (i\.)?key::text\) end`)
	localSetting    = regexp.MustCompile(`set_config\(([^()]|\([^()]*\))*\)`)
)

func TestStatements_needNoSession(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("."), "query/*.sql")
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sql := sqlComment.ReplaceAllString(string(text), "")
		if strings.HasPrefix(file, "query/settle_") || file == "query/settle.sql" {
			require.Len(t, notifyIfAwaited.FindAllString(sql, -1), 1, file)
			sql = notifyIfAwaited.ReplaceAllString(sql, "")
		}
		if file == "query/notify.sql" { // at Open, with Config.Listen
			continue
		}
		require.Empty(t, sessionWords.FindString(sql), file)
		for _, call := range localSetting.FindAllString(sql, -1) {
			require.True(t, strings.HasSuffix(call, ", true)"), "%s: %s outlives its transaction", file, call)
		}
		require.Truef(t, strings.HasPrefix(string(text), "-- "), "%s does not say what it does", file)
		if !strings.Contains(sql, "insert into /*schema*/idempotency_attention ") { // which no duplicate is noted in
			require.NotContains(t, sql, "on conflict (key) do update", "%s: a duplicate would write", file)
		}
	}
}

// A uuid key takes half the index of a text key, and a third of its WAL.
func TestSchema_keyIsSixteenBytes(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	require.Equal(t, "uuid", queryRow[string](t, look, `select format_type(a.atttypid, a.atttypmod) from pg_index i
		join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
		where i.indrelid = 'idempotency'::regclass and i.indisprimary`))
	require.Zero(t, queryRow[int](t, look, "select count(*) from pg_partitioned_table where partrelid = 'idempotency'::regclass"),
		"a key must be unique whatever day it comes")
}
