package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestReaderOf_badStore(t *testing.T) {
	t.Parallel()
	for _, s := range []store.Store{nil, (*memstore.Store)(nil)} {
		r, err := store.ReaderOf(s)
		require.ErrorIs(t, err, store.ErrArgument)
		require.Nil(t, r)
	}
}

func TestReaderOf_ownReader(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	r, err := store.ReaderOf(s)
	require.NoError(t, err)
	require.Equal(t, s.Reader(), r)
}
