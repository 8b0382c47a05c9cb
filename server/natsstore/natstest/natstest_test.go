package natstest_test

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main()
	os.Exit(m.Run())
}

// A stream of a cluster survives the death of its leader, and keeps what was acknowledged.
func TestServers_killTheLeader(t *testing.T) {
	servers := natstest.Start(t, natstest.Config{Nodes: 3, SyncAlways: true})
	conn := servers.Connect(t)
	js, err := conn.JetStream()
	require.NoError(t, err)
	_, err = js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
	require.NoError(t, err)
	_, err = js.Publish("s", []byte("acknowledged"))
	require.NoError(t, err)

	leader := servers.Leader(conn, "S")
	require.GreaterOrEqual(t, leader, 0)
	servers.Kill(leader)
	require.Eventually(t, func() bool {
		next := servers.Leader(conn, "S")
		return next >= 0 && next != leader
	}, time.Minute, 50*time.Millisecond)
	m, err := js.GetLastMsg("S", "s")
	require.NoError(t, err)
	require.Equal(t, "acknowledged", string(m.Data))
	servers.Restart(t, leader)
}

func TestServers_alone(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	_, err := conn.Request("$JS.API.INFO", nil, 5*time.Second)
	require.NoError(t, err)
}
