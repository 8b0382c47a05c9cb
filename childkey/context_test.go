package childkey_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
)

func TestContext(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	key, ok := childkey.FromContext(ctx)
	require.False(t, ok)
	require.True(t, key.IsZero())
	require.Nil(t, childkey.FamilyFromContext(ctx))

	ctx = childkey.NewContext(ctx, parent)
	key, ok = childkey.FromContext(ctx)
	require.True(t, ok)
	require.True(t, key == parent)
	require.Same(t, childkey.FamilyFromContext(ctx), childkey.FamilyFromContext(ctx))

	hidden := childkey.NewContext(ctx, childkey.Key{})
	key, ok = childkey.FromContext(hidden)
	require.False(t, ok, "the zero Key must hide the parent")
	require.True(t, key.IsZero())
	require.Nil(t, childkey.FamilyFromContext(hidden))
}
