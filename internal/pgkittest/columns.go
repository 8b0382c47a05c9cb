package pgkittest

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

var (
	sqlComment = regexp.MustCompile(`(?m)^\s*--.*$|/\*.*?\*/`)
	sqlInsert  = regexp.MustCompile(`insert into \w+ \([^)]*\)`)
	sqlAlias   = regexp.MustCompile(`\b[a-z]+\.`)
	sqlSpace   = regexp.MustCompile(`\s+`)
)

// RequireColumnsOnce fails if a statement in the folder query of files spells four neighbours of a list
// in query/columns: then a new column would need an edit in that statement too. An INSERT may, because
// it names the columns of its values.
func RequireColumnsOnce(tb testing.TB, files fs.FS) {
	tb.Helper()
	statements := readSQL(tb, files, "query/*.sql")
	for name, text := range readSQL(tb, files, "query/distributed/*.sql") {
		statements[name] = text
	}
	for list, text := range readSQL(tb, files, "query/columns/*.sql") {
		columns := strings.Split(strings.Trim(text, ","), ",")
		for i := range len(columns) - 3 {
			part := strings.Join(columns[i:i+4], ",")
			for name, statement := range statements {
				if strings.Contains(statement, part) {
					tb.Errorf("%s spells the columns %s: use the mark of %s", name, part, list)
				}
			}
		}
	}
}

// readSQL returns files without comments, lists of an INSERT, names of tables before columns, and spaces.
func readSQL(tb testing.TB, files fs.FS, pattern string) map[string]string {
	tb.Helper()
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) == 0 {
		tb.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	all := make(map[string]string, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			tb.Fatal(err)
		}
		plain := sqlInsert.ReplaceAllString(sqlComment.ReplaceAllString(string(text), ""), "")
		all[name] = sqlSpace.ReplaceAllString(sqlAlias.ReplaceAllString(plain, ""), "")
	}
	return all
}
