package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// A later run's calls must not treat a refusal as proof that they never
// happened.
func TestInbound_tellsARerun(t *testing.T) {
	t.Parallel()
	var reruns []bool
	h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
		in, _ := wire.FromContext(r.Context())
		reruns = append(reruns, in.Rerun)
		if len(reruns) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	send(h, "k", "b")
	send(h, "k", "b")
	require.Equal(t, []bool{false, true}, reruns)
}
