package natsstore_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

// TestMain is also the entry of the servers that tests start. It checks that no store left a goroutine running.
func TestMain(m *testing.M) {
	natstest.Main()
	code := m.Run()
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for _, ours := range []string{"natsstore.(*waits)", "natsstore.(*clock)", "natsstore.(*Store)", "natstest."} {
		if bytes.Contains(stacks.Bytes(), []byte(ours)) {
			fmt.Fprintf(os.Stderr, "%s was left running:\n%s", ours, &stacks)
			code = 1
		}
	}
	os.Exit(code)
}
