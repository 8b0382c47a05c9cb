package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The network keeps a request for so long that its caller gives up, and delivers it then. It
// has its effect, and the caller's retry gets the answer that nobody heard. Another copy,
// later still, gets it too.
func TestLateCopy(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	network := newGateway(t, p.URL)
	pool := connect(t, database)
	req := blackboxtest.Request{URL: network.url + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}

	patience, giveUp := context.WithCancel(t.Context())
	heard := make(chan blackboxtest.Answer, 1)
	go func() { heard <- blackboxtest.Post(patience, req) }()
	copied := <-network.arrived
	giveUp()
	require.Zero(t, (<-heard).Status, "the caller gave up")
	require.Zero(t, effects(t, pool, "t", "k", kindDo), "nothing has arrived yet")

	network.letGo()
	<-copied.done
	require.Equal(t, http.StatusCreated, copied.answer.Status, "the only copy arrived after its caller gave up")
	require.False(t, copied.answer.Replayed())
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))

	req.URL = p.URL + "/v1/effect"
	for name, final := range map[string]blackboxtest.Answer{
		"the caller's retry":               blackboxtest.Post(t.Context(), req),
		"another copy of the same request": copied.deliver(t.Context()),
	} {
		require.Equal(t, http.StatusCreated, final.Status, name)
		require.True(t, final.Replayed(), name)
		require.Equal(t, copied.answer.Body, final.Body, name)
	}
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
	var done bool
	require.NoError(t, pool.QueryRow(t.Context(), "select state = 2 and fence = 1 from idempotency").Scan(&done))
	require.True(t, done)
}
