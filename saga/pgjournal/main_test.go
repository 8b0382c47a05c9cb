package pgjournal_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
)

// TestMain is the entry of the processes that tests start, too, and looks whether a
// journal or an engine left something running.
func TestMain(m *testing.M) {
	if role := os.Getenv(processRole); role != "" {
		os.Exit(process(role))
	}
	code := m.Run()
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for _, of := range []string{"internal/pgkit.", "fanonce/saga."} {
		if bytes.Contains(stacks.Bytes(), []byte(of)) {
			fmt.Fprintf(os.Stderr, "something of %s was left running:\n%s", of, &stacks)
			code = 1
			break
		}
	}
	os.Exit(code)
}
