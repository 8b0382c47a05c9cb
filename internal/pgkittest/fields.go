package pgkittest

import (
	"io/fs"
	"path"
	"reflect"
	"strings"
	"testing"
)

// RequireFields requires that each statement in the folder query has an exported field in one of the structs:
// a file that no field names would be a statement that nothing sends.
func RequireFields(tb testing.TB, files fs.FS, structs ...any) {
	tb.Helper()
	fields := make(map[string]bool)
	for _, of := range structs {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			fields[strings.ToLower(field.Name)] = field.IsExported()
		}
	}
	for _, pattern := range []string{"query/*.sql", "query/distributed/*.sql"} {
		found, err := fs.Glob(files, pattern)
		if err != nil || len(found) == 0 {
			tb.Fatalf("%d files %s: %v", len(found), pattern, err)
		}
		for _, file := range found {
			name := strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".sql"), "_", "")
			if !fields[name] {
				tb.Errorf("no field has the statement of %s", file)
			}
		}
	}
}
