package component_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
)

const grants = "alter table x owner to fanonce_owner; grant select on x to fanonce_runtime, fanonce_observer;"

func TestRoles_SQL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		roles component.Roles
		want  string
	}{
		{"defaults", component.Roles{}, grants},
		{
			"swapped", component.Roles{Owner: "fanonce_runtime", Runtime: "fanonce_owner"},
			`alter table x owner to "fanonce_runtime"; grant select on x to "fanonce_owner", fanonce_observer;`,
		},
		{
			"in a circle", component.Roles{Owner: "fanonce_runtime", Runtime: "fanonce_observer", Observer: "fanonce_owner"},
			`alter table x owner to "fanonce_runtime"; grant select on x to "fanonce_observer", "fanonce_owner";`,
		},
		{
			"with another's default inside", component.Roles{Owner: "my_fanonce_runtime", Runtime: "svc"},
			`alter table x owner to "my_fanonce_runtime"; grant select on x to "svc", fanonce_observer;`,
		},
		{
			"reserved words", component.Roles{Owner: "user", Runtime: "order", Observer: "end"},
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
	for _, roles := range []component.Roles{
		{Owner: "public"}, // quoted too it means everybody
		{Runtime: "none"},
		{Runtime: "pg_monitor"},
		{Observer: `x" superuser; --`},
		{Owner: "Owner"},
		{Owner: "svc", Runtime: "svc"},
		{Owner: "fanonce_observer"},
	} {
		_, err := roles.SQL(grants)
		require.ErrorIs(t, err, component.ErrRoleName, "%+v", roles)
	}
	require.ErrorIs(t, component.Roles{Schema: "a, b"}.Grant(t.Context(), nil, grants), pgkit.ErrSchemaName)
}
