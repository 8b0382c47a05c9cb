package main

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(blackboxtest.ChildVariable) == "" {
		os.Exit(m.Run())
	}
	main()
}

// A fleet is what a random load balancer knows: processes over one database, each in a phase.
type fleet struct {
	t        *testing.T
	database string

	mu   sync.Mutex
	pods []pod
}

type pod struct {
	*blackboxtest.Process

	phase string
}

// isOld reports whether the pod runs the hand-written code.
func (p pod) isOld() bool { return p.phase == "old" }

func newFleet(t *testing.T, database string, phases ...string) *fleet {
	f := &fleet{t: t, database: database, pods: make([]pod, len(phases))}
	for i, phase := range phases {
		f.pods[i] = f.start(phase)
	}
	for _, p := range f.pods {
		p.AwaitReady()
	}
	return f
}

func (f *fleet) start(phase string) pod {
	return pod{blackboxtest.Start(f.t, "DATABASE_URL="+f.database, "PHASE="+phase, "LOCK=1s", "LEASE=5s"), phase}
}

// pick returns a pod by chance. It may be dead.
func (f *fleet) pick() pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[rand.IntN(len(f.pods))]
}

// deploy replaces a pod by one of another phase. The pod is killed in the middle of its work.
func (f *fleet) deploy(i int, phase string) {
	next := f.start(phase).AwaitReady()
	f.mu.Lock()
	last := f.pods[i]
	f.pods[i] = pod{next, phase}
	f.mu.Unlock()
	last.Kill()
}

// kill kills a pod by chance, and starts it again.
func (f *fleet) kill() {
	p := f.pick()
	p.Kill()
	p.Restart()
	p.AwaitReady()
}
