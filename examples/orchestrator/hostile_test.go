package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

// Input that a hop or a journal cannot store is refused here, before a saga begins.
func TestHostile_text(t *testing.T) {
	t.Parallel()
	w := newDeployment(t)
	for _, path := range []string{"/v1/checkout", "/v1/sagas"} {
		for name, body := range map[string]string{
			"NUL": `{"fp":"a\u0000"}`, "no UTF-8": "{\"fp\":\"\xff\"}", "too long": `{"fp":"` + strings.Repeat("x", 1<<20-100) + `"}`,
		} {
			a := blackboxtest.Post(t.Context(), blackboxtest.Request{URL: w.front.URL + path, Tenant: "t", Key: "k", Body: body})
			require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s: %s", path, name, a.Body)
			require.Equal(t, "false", a.Header.Get(wire.HeaderShouldRetry))
			require.Equal(t, "key-invalid", a.Header.Get(wire.HeaderCode))
		}
		for name, tenant := range map[string]string{"no UTF-8": "t\xff", "too long": strings.Repeat("t", 2000)} {
			a := blackboxtest.Post(t.Context(), blackboxtest.Request{URL: w.front.URL + path, Tenant: tenant, Key: "k", Body: `{"fp":"a"}`})
			require.Equal(t, http.StatusBadRequest, a.Status, "%s: %s: %s", path, name, a.Body)
			require.Equal(t, "false", a.Header.Get(wire.HeaderShouldRetry))
		}
	}
	var rows int
	require.NoError(t, w.databases["orchestrator"].QueryRow(t.Context(), "select (select count(*) from idempotency) + (select count(*) from saga)").Scan(&rows))
	require.Zero(t, rows, "a refusal leaves nothing behind")
	status, _ := show(t, w.front, "t\xff", "k")
	require.Equal(t, http.StatusBadRequest, status)
}
