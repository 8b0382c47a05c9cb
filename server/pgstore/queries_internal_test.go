package pgstore

import (
	"io/fs"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that no field names would be a statement that nothing sends.
func TestQueries_haveAField(t *testing.T) {
	t.Parallel()
	fields := make(map[string]bool)
	for _, of := range []any{queries{}, readerQueries{}} {
		for i := range reflect.TypeOf(of).NumField() {
			fields[strings.ToLower(reflect.TypeOf(of).Field(i).Name)] = true
		}
	}
	for _, pattern := range []string{"query/*.sql", "query/distributed/*.sql"} {
		files, err := fs.Glob(queryFiles, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			name := strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".sql"), "_", "")
			require.True(t, fields[name], file)
		}
	}
}
