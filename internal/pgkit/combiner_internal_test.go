package pgkit

import (
	"context"
	"errors"
	"testing"
)

// A test from outside cannot choose the moment at which a caller leaves. So these tests are
// internal and look only at the queue.
func TestCombiner_calledLeaderLeaves(t *testing.T) {
	t.Parallel()
	c := &Combiner{writer: new(Writer), cfg: CombinerConfig{MaxQueued: 9}, limiter: limiter{most: 1}}
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
		if next := entries[i+1]; next.stage != stageLeading || next.err != nil {
			t.Errorf("entry %d has stage %d and error %v, want %d, nil", i+1, next.stage, next.err, stageLeading)
		}
	}
	if err := c.abandon(ctx, entries[3]); !errors.Is(err, context.Canceled) || c.limiter != (limiter{most: 1}) {
		t.Errorf("abandon(3) = %v, and %+v is under way, want %v, and nothing", err, c.limiter, context.Canceled)
	}
}

func TestCombiner_abandon_afterTheEnd(t *testing.T) {
	t.Parallel()
	c := &Combiner{writer: new(Writer), cfg: CombinerConfig{MaxQueued: 9}, limiter: limiter{most: 1, slots: 1, carried: 1}}
	e := &entry{wake: make(chan struct{}, 1)}
	f := &flush{leader: e, entries: []*entry{e}, writes: 1}
	e.stage, e.flush = stageSent, f
	c.finish(f, nil)
	c.stall(f) // its timer went off at the same moment
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.abandon(ctx, e); err != nil {
		t.Errorf("abandon after the end = %v, want its outcome, nil", err)
	}
	if c.limiter != (limiter{most: 1}) {
		t.Errorf("%+v is under way, want nothing", c.limiter)
	}
}

func TestLimiter_room(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                             string
		slots, stalled, carried, waiting int
		want                             bool
	}{
		{"nothing is under way", 0, 0, 0, 1, true},
		{"one is, and few wait", 1, 0, 1, 3, false},
		{"one is, and enough wait", 1, 0, 1, 4, true},
		{"two are, and few wait for two", 2, 0, 2, 7, false},
		{"two are, and enough wait", 2, 0, 2, 8, true},
		{"a large one is, and fewer wait", 1, 0, 100, 99, false},
		{"a large one is, and as many wait", 1, 0, 100, 100, true},
		{"large ones are, and fewer wait than they carry on average", 2, 0, 150, 74, false},
		{"large ones are, and as many wait", 2, 0, 150, 75, true},
		{"all are", 3, 0, 3, 4000, false},
		{"one has stalled, and says nothing of the next", 0, 1, 0, 1, true},
		{"one has stalled beside another, and few wait for that", 1, 1, 1, 3, false},
		{"all have stalled", 0, 3, 0, 4000, false},
		{"some have stalled, and the others are all", 1, 2, 1, 4000, false},
	} {
		under := limiter{most: 3, slots: tt.slots, stalled: tt.stalled, carried: tt.carried}
		if got := under.room(tt.waiting); got != tt.want {
			t.Errorf("%s: %+v has room for %d: %v, want %v", tt.name, under, tt.waiting, got, tt.want)
		}
	}
}
