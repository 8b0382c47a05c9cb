package sdk_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// callerURL makes the test binary a process that places one order there.
const callerURL = "SDK_TEST_CALLER_URL"

// TestMain is the entry of the process that TestCall_callerIsKilled kills, too.
func TestMain(m *testing.M) {
	if url := os.Getenv(callerURL); url != "" {
		os.Exit(placeOrder(url))
	}
	os.Exit(m.Run())
}

// placeOrder knows of the order what a handler would: its id.
func placeOrder(url string) int {
	slow := retry.Config{ // it is killed during the wait before its second attempt
		Backoff: retry.Backoff{Base: time.Hour}, Timeout: 24 * time.Hour, Rand: func() float64 { return 0 },
	}
	client, err := sdk.New(sdk.Config{Retry: slow, Services: map[string]sdk.Service{"inventory": {URL: url}}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	order, err := childkey.FromParts("shop", "order-42")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	held, err := sdk.Call(childkey.NewContext(context.Background(), order), client, reserve, lines{[]string{"a", "b"}})
	fmt.Print(held.ID, " ", err)
	return 0
}

// The caller is killed after its first attempt took effect and the answer was lost. The process
// that starts again does not need to know that.
func TestCall_callerIsKilled(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"h-1"}))
	d.Script("/reservations", sdktest.DropResponse())
	caller := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), callerURL+"="+d.URL())
		return cmd
	}
	killed := caller()
	require.NoError(t, killed.Start())
	require.Eventually(t, func() bool { return len(d.Effects()) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	require.ErrorContains(t, killed.Wait(), "killed")
	d.Script("/reservations")

	out, err := caller().CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "h-1 <nil>", string(out))
	seen := d.Requests()
	require.Len(t, seen, 2)
	require.Equal(t, seen[0].Key, seen[1].Key)
	require.Equal(t, seen[0].Body, seen[1].Body)
	require.Equal(t, map[string]int{seen[0].Key: 1}, d.Effects())
}
