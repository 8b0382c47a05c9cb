package pgkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

const grants = "alter table x owner to fanonce_owner; grant select on x to fanonce_runtime, fanonce_observer;"

func TestRoles_SQL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		roles pgkit.Roles
		want  string
	}{
		{"defaults", pgkit.Roles{}, grants},
		{
			"swapped", pgkit.Roles{Owner: "fanonce_runtime", Runtime: "fanonce_owner"},
			`alter table x owner to "fanonce_runtime"; grant select on x to "fanonce_owner", fanonce_observer;`,
		},
		{
			"in a circle", pgkit.Roles{Owner: "fanonce_runtime", Runtime: "fanonce_observer", Observer: "fanonce_owner"},
			`alter table x owner to "fanonce_runtime"; grant select on x to "fanonce_observer", "fanonce_owner";`,
		},
		{
			"with another's default inside", pgkit.Roles{Owner: "my_fanonce_runtime", Runtime: "svc"},
			`alter table x owner to "my_fanonce_runtime"; grant select on x to "svc", fanonce_observer;`,
		},
		{
			"reserved words", pgkit.Roles{Owner: "user", Runtime: "order", Observer: "end"},
			`alter table x owner to "user"; grant select on x to "order", "end";`,
		},
	} {
		got, err := tt.roles.SQL(grants)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, got, tt.name)
	}
}

func TestRoles_refused(t *testing.T) {
	t.Parallel()
	for _, roles := range []pgkit.Roles{
		{Owner: "public"}, // quoted too it means everybody
		{Runtime: "none"},
		{Runtime: "pg_monitor"},
		{Observer: `x" superuser; --`},
		{Owner: "Owner"},
		{Owner: "svc", Runtime: "svc"},
		{Owner: "fanonce_observer"},
	} {
		_, err := roles.SQL(grants)
		require.ErrorIs(t, err, pgkit.ErrRoleName, "%+v", roles)
	}
	require.ErrorIs(t, pgkit.Roles{Schema: "a, b"}.Grant(t.Context(), nil, grants), pgkit.ErrSchemaName)
}
