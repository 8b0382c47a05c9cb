package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/integrations/stores/internal/address"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// serve serves the routes on a store, and returns the address.
func serve(t *testing.T, url string, env map[string]string) string {
	t.Helper()
	keys, err := address.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(keys.Close)
	guard, err := server.NewGuard(keys, tenant, server.Config{})
	require.NoError(t, err)
	handler, err := routes(guard, func(name string) string { return env[name] })
	require.NoError(t, err)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL
}

// redis starts a server that flushes each write, and returns its address.
func redis(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDISTEST_SERVER") == "" {
		t.Skip("no redis-server on PATH (Debian package redis-server): the contract is not checked on Redis")
	}
	return "redis://" + redistest.Start(t).Addr()
}

// unseen are the rows of the wire contract that this service cannot show.
var unseen = map[string]bool{"replay/dropped": true, "reuse/method": true}

// The service speaks the wire contract on each store.
func TestConformance(t *testing.T) {
	command := filepath.Join(t.TempDir(), "wire")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/fanonce/fanonce/server/servertest/wire")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, at := range map[string]string{"memory": "memory://", "redis": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "redis" {
				at = redis(t)
			}
			sink := serve(t, "memory://", nil)
			url := serve(t, at, map[string]string{"SINK_URL": sink, "WORK": "400ms"})
			cmd := exec.CommandContext(t.Context(), command, "-url", url, "-path", "/v1/effect-keyed", "-other-path", "/v1/effect-opaque",
				"-json", "-opaque", "/v1/effect-opaque", "-body", `{"fp":"a"}`, "-refused", `{"fp":"a","reject":true}`,
				"-failing", `{"fp":"a","fail":true}`, "-slow", `{"fp":"slow"}`, "-auth", "Authorization: Bearer t1", "-other-auth", "Authorization: Bearer t2")
			out, err := cmd.Output()
			var report struct {
				Passed int
				Rows   []struct{ ID, Status, Want, Detail string }
			}
			require.NoError(t, json.Unmarshal(out, &report), "%v: %s", err, out)
			for _, row := range report.Rows {
				if unseen[row.ID] || row.Status == "skip" && row.Detail == "needs -undo" {
					continue
				}
				require.Equal(t, "pass", row.Status, "%s: %s; want %s", row.ID, row.Detail, row.Want)
			}
			require.NoError(t, err)
			require.Greater(t, report.Passed, 50)
		})
	}
}
