package component_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

func TestCheckPrivileges(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection)
	const role = "privileges_of_a_test"
	exec(t, pool, "create schema apart; create table apart.t (a int, b int); create table t (a int); create role "+role+"; grant usage on schema apart to "+role)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "reset role; drop owned by "+role+"; drop role "+role)
		require.NoError(t, err)
	})
	require.NoError(t, component.CheckPrivileges(t.Context(), pool, "apart", "t"), "whose it is")
	require.NoError(t, component.CheckPrivileges(t.Context(), pool, "", "t"))
	exec(t, pool, "grant select on apart.t to "+role)
	exec(t, pool, "set role "+role)
	err := component.CheckPrivileges(t.Context(), pool, "apart", "t")
	require.ErrorIs(t, err, component.ErrPrivilege)
	var missing *component.PrivilegeError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, component.PrivilegeError{Role: role, Table: "t", Missing: []string{"insert", "update", "delete"}}, *missing)
	exec(t, pool, "reset role; grant insert, delete, update (b) on apart.t to "+role+"; set role "+role)
	require.NoError(t, component.CheckPrivileges(t.Context(), pool, "apart", "t"), "of an update some columns are enough")
	require.Error(t, component.CheckPrivileges(t.Context(), pool, "apart", "nowhere"))
}
