package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Redis has the connections that it is given, and no fewer: its callers do not wait for
// each other's.
func TestRedisVariant_connections(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(errNoRedis)
	}
	l := newLab(t)
	r, err := l.redisAlways(t.Context())
	require.NoError(t, err)
	v, err := redisVariant(t.Context(), r, alwaysRedis, 64, 64)
	require.NoError(t, err)
	require.Equal(t, 64, v.connections)
	look := r.client(1)
	defer look.Close()
	require.NoError(t, look.Do(t.Context(), "client", "pause", 60_000, "write").Err()) // all callers wait in their first claim
	type result struct {
		work
		err error
	}
	done := make(chan result, 1)
	go func() {
		w, err := v.turn(t.Context(), time.Second) // on a slow machine all get to call
		done <- result{w, err}
	}()
	require.Eventually(t, func() bool {
		info, err := look.InfoMap(t.Context(), "clients").Result()
		return err == nil && info["Clients"]["connected_clients"] == "65" // and who looks
	}, 2*time.Second, time.Millisecond)
	require.NoError(t, look.Do(t.Context(), "client", "unpause").Err())
	did := <-done
	require.NoError(t, did.err)
	require.NoError(t, v.check(t.Context(), did.operations))
	require.NoError(t, v.close())
}
