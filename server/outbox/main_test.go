package outbox_test

import (
	"os"
	"testing"
)

// TestMain is also the entry of the relays that tests start and kill.
func TestMain(m *testing.M) {
	if url := os.Getenv(relayURL); url != "" {
		os.Exit(relayProcess(url))
	}
	os.Exit(m.Run())
}
