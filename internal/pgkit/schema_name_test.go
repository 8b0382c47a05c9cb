package pgkit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func TestCheckSchemaName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, schema string
		want         error
	}{
		{"none", "", nil},
		{"plain", "audit_2", nil},
		{"underscore first", "_x", nil},
		{"a reserved word", "user", nil},
		{"63 bytes", strings.Repeat("a", 63), nil},
		{"64 bytes", strings.Repeat("a", 64), pgkit.ErrSchemaName},
		{"upper case", "Audit", pgkit.ErrSchemaName},
		{"digit first", "2x", pgkit.ErrSchemaName},
		{"kept by Postgres", "pg_temp", pgkit.ErrSchemaName},
		{"the catalog", "pg_catalog", pgkit.ErrSchemaName},
		{"quote", `a"b`, pgkit.ErrSchemaName},
		{"nothing but a quote", `"`, pgkit.ErrSchemaName},
		{"injection behind a schema that exists", "public; drop table x", pgkit.ErrSchemaName},
		{"injection", "a; drop table x", pgkit.ErrSchemaName},
		{"line break at the end", "a\n", pgkit.ErrSchemaName},
		{"two parts", "a.b", pgkit.ErrSchemaName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := pgkit.CheckSchemaName(tt.schema); !errors.Is(err, tt.want) {
				t.Errorf("CheckSchemaName(%q) error = %v, want %v", tt.schema, err, tt.want)
			}
		})
	}
}

// Whatever is accepted cannot leave the place that it is put in.
func FuzzCheckSchemaName(f *testing.F) {
	f.Add(`x".y; --`)
	f.Add("a\x00")
	f.Fuzz(func(t *testing.T, name string) {
		if pgkit.CheckSchemaName(name) == nil && strings.ContainsAny(name, "\"'`;.-/*\\ \t\r\n\x00") {
			t.Errorf("CheckSchemaName(%q) accepts it", name)
		}
	})
}
