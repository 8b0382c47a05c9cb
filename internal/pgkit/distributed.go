package pgkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// plainLine ends with the mark of a line that distributed tables do without.
	plainLine  = regexp.MustCompile(`(?m)^(.*?)[ \t]*-- plain$`)
	plainWhole = regexp.MustCompile(`(?m)^.*-- plain\n?`)
	// distributedLine is a line for distributed tables alone. It is a comment for others.
	distributedLine = regexp.MustCompile(`(?m)^--distributed `)
)

// DistributedText returns the statement in file as it is for distributed tables: the file of the
// same name in the folder "distributed" beside it, if there is one. Else it is the file itself,
// without the lines that end with "-- plain", and with the lines that begin with "--distributed".
func DistributedText(files fs.FS, file string) (string, error) {
	dir := path.Dir(file)
	text, err := fs.ReadFile(files, path.Join(dir, "distributed", path.Base(file)))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = fs.ReadFile(files, file)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return fillColumns(files, dir, distributedLine.ReplaceAllString(plainWhole.ReplaceAllString(string(text), ""), ""))
}

// LoadDistributedQueries is [LoadQueries] for tables that are distributed; see [DistributedText].
func LoadDistributedQueries(files fs.FS, schema string, groups ...map[string]*Query) error {
	return loadQueries(LoadDistributedQuery, files, schema, groups)
}

// distributedSettings are the settings that a statement for distributed tables needs. A worker
// hears of a setting only by SET LOCAL, and in a transaction block. So the argument lock_timeout
// of a statement becomes a statement in front of it.
func distributedSettings(timeout any) []string {
	text, ok := timeout.(string)
	if !ok {
		return nil
	}
	return LockTimeoutSettings(text)
}

// LockTimeoutSettings returns the statements that set the lock timeout of a transaction on all
// servers of distributed tables. The timeout is as Postgres shows it.
func LockTimeoutSettings(timeout string) []string {
	return propagate("set local lock_timeout = '" + quoteLiteral(timeout) + "'")
}

// LockTimeoutReset returns the statements that give the session's lock timeout back to a transaction
// on all servers.
func LockTimeoutReset() []string { return propagate("set local lock_timeout to default") }

// brief is how long a write waits for a lock where others wait for its connection. A commit on several
// servers holds its locks for several round trips between them: a shorter wait would hardly ever see
// its end.
func (q Query) brief() time.Duration {
	if q.distributed {
		return 5 * BriefLockTimeout
	}
	return BriefLockTimeout
}

// propagate returns statements that have all servers carry out a SET LOCAL. Afterwards no SET LOCAL is
// propagated any more: Citus would send the whole string that it is in, also a COMMIT behind it.
func propagate(setting string) []string {
	return []string{"set local citus.propagate_set_commands = 'local'", setting, "set local citus.propagate_set_commands to default"}
}

// quoteLiteral drops the characters that could end a literal: no timeout has them.
func quoteLiteral(text string) string { return strings.NewReplacer("'", "", `\`, "").Replace(text) }

// Distributed reports whether a table of a component is distributed by Citus. A table that does
// not exist is not. It returns the server's error.
func Distributed(ctx context.Context, pool *pgxpool.Pool, schema, table string) (bool, error) {
	if err := CheckSchemaName(schema); err != nil {
		return false, err
	}
	var installed bool
	if err := pool.QueryRow(ctx, "select to_regclass('pg_catalog.pg_dist_partition') is not null").Scan(&installed); err != nil || !installed {
		return false, err
	}
	var distributed bool
	err := pool.QueryRow(ctx, "select exists (select from pg_catalog.pg_dist_partition where logicalrelid = to_regclass("+
		"$1) and partmethod = 'h')", prefix(schema)+table).Scan(&distributed)
	return distributed, err
}
