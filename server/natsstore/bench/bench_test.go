package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main()
	os.Exit(m.Run())
}

// A miniature of the loss run: a cluster that flushes each write loses nothing while its servers are killed.
func TestLoss(t *testing.T) {
	r := loss(t.Context(), t, lossConfig{
		servers: natstest.Config{Nodes: 3, SyncAlways: true}, callers: 16, keys: 1500, every: 500 * time.Millisecond,
	})
	t.Log(r)
	require.True(t, r.clean(), "%v", r)
	require.Positive(t, r.kills)
	require.EqualValues(t, 1500, r.claims)
	require.EqualValues(t, 1500, r.completions)
}

// The audit sees a loss: this bucket is emptied behind the store's back.
func TestLoss_isSeen(t *testing.T) {
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := open(t.Context(), t, conn, 1)
	defer s.Close()
	r := &losses{cfg: lossConfig{callers: 4, keys: 100}}
	keys := r.run(t.Context(), t, s)
	_, err := conn.Request("$JS.API.STREAM.PURGE.KV_fanonce", nil, 5*time.Second)
	require.NoError(t, err)
	r.audit(t.Context(), t, s, keys)
	require.EqualValues(t, 100, r.lostClaims)
	require.EqualValues(t, 100, r.secondRuns)
}

func TestSpeed(t *testing.T) {
	r := speed(t.Context(), t, natstest.Config{}, 4, 2, 20*time.Millisecond)
	require.Positive(t, r.store)
	require.Positive(t, r.bare)
}
