package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/demo"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// demoVariable makes the test binary the demo. It starts itself again as the payment service, which gets the variable,
// too.
const demoVariable = "CHECKOUT_TEST_DEMO"

func TestMain(m *testing.M) {
	if os.Getenv(demoVariable) != "" {
		os.Exit(demo.Main(openers()))
	}
	os.Exit(m.Run())
}

// A report is the part of the demo's report that counts effects.
type report struct {
	Accepted int
	Keys     string
	OK       bool
	Hops     []hop
}

type hop struct {
	Name       string
	Effects    int
	Min        int `json:"effects_per_key_min"`
	Max        int `json:"effects_per_key_max"`
	Lost       int `json:"lost_acknowledgements"`
	Suppressed int `json:"duplicates_suppressed"`
}

// Over a brutal network each key has one effect at each hop, although the keys are in Redis.
func TestDemo_everyKeyOnce(t *testing.T) {
	t.Parallel()
	const n = 40
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "-json", "-n=40", "-faults=brutal")
	cmd.Env = append(os.Environ(), demoVariable+"=1", "STORE="+startRedis(t))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.Bytes())
	var r report
	require.NoError(t, json.Unmarshal(out, &r))
	require.True(t, r.OK)
	require.Equal(t, n, r.Accepted)
	require.Contains(t, r.Keys, "redis://")
	require.Contains(t, stderr.String(), "Keyed and Opaque routes (checkout, notification) have their keys in redis://")
	require.Len(t, r.Hops, 4)
	for _, hop := range r.Hops {
		require.Equal(t, []int{n, 1, 1, 0}, []int{hop.Effects, hop.Min, hop.Max, hop.Lost}, "%+v", hop)
		require.Positive(t, hop.Suppressed, "%+v", hop)
	}
}

func startRedis(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDISTEST_SERVER") == "" {
		t.Skip("no redis-server on PATH (Debian package redis-server): the demo is not run on Redis")
	}
	return "redis://" + redistest.Start(t).Addr()
}
