package pgkit

import (
	"context"
	"errors"
	"testing"
)

// What depends on the moment at which a caller leaves cannot be brought about from
// outside; so these look at the queue alone, which is why they are internal.
func TestCombiner_calledLeaderLeaves(t *testing.T) {
	t.Parallel()
	c := &Combiner{cfg: CombinerConfig{MaxFlushes: 1, MaxQueued: 9}}
	entries := make([]*entry, 4)
	for i := range entries {
		entries[i] = &entry{wake: make(chan struct{}, 1)}
		lead, err := c.enter(entries[i])
		if err != nil || lead != (i == 0) {
			t.Fatalf("enter(%d) = %v, %v, want %v, nil", i, lead, err, i == 0)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, leads := range entries[:3] { // called, it goes, and the next is called
		if err := c.abandon(ctx, leads); !errors.Is(err, context.Canceled) || errors.Is(err, ErrFateUnknown) {
			t.Errorf("abandon(%d) = %v, want %v", i, err, context.Canceled)
		}
		<-entries[i+1].wake
		if lead, err := c.called(entries[i+1]); !lead || err != nil {
			t.Errorf("called(%d) = %v, %v, want true, nil", i+1, lead, err)
		}
	}
	if err := c.abandon(ctx, entries[3]); !errors.Is(err, context.Canceled) || c.slots != 0 {
		t.Errorf("abandon(3) = %v, and %d slots are taken, want %v, and 0", err, c.slots, context.Canceled)
	}
}

func TestCombiner_abandon_afterTheEnd(t *testing.T) {
	t.Parallel()
	c := &Combiner{cfg: CombinerConfig{MaxFlushes: 1, MaxQueued: 9}}
	e := &entry{wake: make(chan struct{}, 1)}
	f := &flush{entries: []*entry{e}, slot: true}
	c.slots, e.stage, e.flush = 1, stageSent, f
	c.finish(f, nil)
	c.giveUpSlot(f) // its timer went off at the same moment
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.abandon(ctx, e); err != nil {
		t.Errorf("abandon after the end = %v, want its outcome, nil", err)
	}
	if c.slots != 0 {
		t.Errorf("%d slots are taken, want 0", c.slots)
	}
}

func TestCombiner_mayLead(t *testing.T) {
	t.Parallel()
	c := &Combiner{cfg: CombinerConfig{MaxFlushes: 3}}
	for _, tt := range []struct {
		name           string
		slots, waiting int
		want           bool
	}{
		{"nothing is under way", 0, 1, true},
		{"one is, and few wait", 1, 3, false},
		{"one is, and enough wait", 1, 4, true},
		{"two are, and few wait for two", 2, 7, false},
		{"two are, and enough wait", 2, 8, true},
		{"all are", 3, 4000, false},
	} {
		c.slots = tt.slots
		if got := c.mayLead(tt.waiting); got != tt.want {
			t.Errorf("%s: mayLead(%d) = %v, want %v", tt.name, tt.waiting, got, tt.want)
		}
	}
}
