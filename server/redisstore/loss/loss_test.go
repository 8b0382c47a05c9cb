package main

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// The miniature of each setting that must lose nothing, and of one that must: it shows that a loss is counted.
func TestMeasure(t *testing.T) {
	t.Parallel()
	loses := map[string]bool{
		"single, always, SIGKILL": false, "cluster, everysec, SIGKILL, Replicas 1": false,
		"pair, always, isolated primary": true, "pair, always, isolated primary, Replicas 1": false, "single, everysec, power loss": true,
	}
	for _, s := range settings {
		lossy, tested := loses[s.name]
		if !tested {
			// A SIGKILL of a primary loses what was on its way: sometimes nothing. With everysec a server whose disk is slow
			// holds its writes back while an fsync runs, for two seconds at most, and a SIGKILL loses these.
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.every = time.Second // so that a fault comes while there are calls
			r, err := measure(t.Context(), s, 3000, 1000)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", r)
			if lost := r.claims + r.answers + r.seconds; (lost > 0) != lossy {
				t.Errorf("lost = %+v, want a loss: %v", r, lossy)
			}
			if r.faults == 0 {
				t.Error("no fault")
			}
		})
	}
}

func TestRun_badFlags(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), 0, 1, ""); err == nil {
		t.Error("run of 0 keys: error = nil, want one")
	}
	if err := run(t.Context(), 1, 0, ""); err == nil {
		t.Error("run of 0 keys in a second: error = nil, want one")
	}
}
