package pgstore_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
)

// TestMain is also the entry of the processes that tests start. It checks that
// no store left a goroutine running.
func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(child(url))
	}
	if url := os.Getenv(consumerURL); url != "" {
		os.Exit(consume(url))
	}
	if url := os.Getenv(killURL); url != "" {
		os.Exit(transferAndDie(url))
	}
	if url := os.Getenv(intentURL); url != "" {
		os.Exit(chargeOrder(url))
	}
	code := m.Run()
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for _, ours := range []string{"internal/pgkit.", "pgstore.(*poller)", "pgstore.(*listener)"} {
		if bytes.Contains(stacks.Bytes(), []byte(ours)) {
			fmt.Fprintf(os.Stderr, "%s was left running:\n%s", ours, &stacks)
			code = 1
		}
	}
	os.Exit(code)
}
