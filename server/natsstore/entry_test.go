package natsstore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/store"
)

// Foreign and damaged bytes are an error that no retry repairs, never a panic and never an absent key.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"nonce":"a","state":"completed","effect":"keyed","token":"AAAAAAAAAAAAAAAAAAAAAA==","fence":1}` + "\nbody"))
	f.Add([]byte(`{"v":2}` + "\n"))
	f.Add([]byte(`{"v":1,"state":"completed","token":"AA=="}` + "\n"))
	f.Add([]byte("foreign"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := natsstore.Decode(store.ID{}, data); err != nil && !errors.Is(err, store.ErrRecordUnreadable) {
			t.Fatal(err)
		}
	})
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	r := claimed(t, s, false)
	require.NoError(t, s.Settle(t.Context(), owner(r), giveUp))
	_, err := conn.Request(natsstore.SubjectOf(s, r.ID), []byte("somebody's put"), 0x7fffffff)
	require.NoError(t, err)
	_, err = s.Read(t.Context(), r.ID)
	require.ErrorIs(t, err, store.ErrRecordUnreadable)
	_, won, err := s.Claim(t.Context(), request(r.ID))
	require.False(t, won)
	require.ErrorIs(t, err, store.ErrRecordUnreadable)
	require.ErrorIs(t, s.Settle(t.Context(), owner(r), done), store.ErrRecordUnreadable)
	n, err := s.Sweep(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = s.Attention(t.Context())
	require.NoError(t, err)
}
