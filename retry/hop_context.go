package retry

import (
	"context"
	"sync"
	"time"
)

// A hopContext is the context of one hop: it ends with the attempt's time or with
// the hop, and has the hooks that collect evidence.
//
// Timer and hooks would be a third of a call over a stub, so they are made when the
// transport first asks for anything, as net/http's does at once. One that answers without
// a look at its context (a cache, a breaker) could neither see the end nor call a hook.
type hopContext struct {
	parent context.Context
	ends   time.Time
	cause  error // of the end by time
	seen   *evidence

	mu     sync.Mutex
	made   context.Context    // nil: nobody has asked
	cancel context.CancelFunc // of made
	over   bool
}

// context returns what the hopContext stands for. Since that is a context of the
// standard library's, so is what is derived from it, and needs no goroutine.
func (h *hopContext) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made == nil {
		h.made, h.cancel = context.WithDeadlineCause(h.seen.trace(h.parent), h.ends, h.cause)
		if h.over { // a transport that asks now has kept the request for too long
			h.cancel()
		}
	}
	return h.made
}

// end ends the context, if it has not ended.
func (h *hopContext) end() {
	h.mu.Lock()
	h.over = true
	cancel := h.cancel
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (h *hopContext) Deadline() (at time.Time, ok bool) { return h.context().Deadline() }
func (h *hopContext) Done() <-chan struct{}             { return h.context().Done() }
func (h *hopContext) Err() error                        { return h.context().Err() }
func (h *hopContext) Value(key any) any                 { return h.context().Value(key) }
