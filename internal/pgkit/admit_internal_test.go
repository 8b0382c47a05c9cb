package pgkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The grace is a second of real time, which is too long and too vague for a test with a server. So
// these tests are internal and test only the waiting.
func TestWriter_Admit_waits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		detached int
		after    func(w *Writer, cancel context.CancelFunc) // half the grace
		want     error
		waited   time.Duration
	}{
		{"room", 1, nil, nil, 0},
		{"full", 2, nil, ErrBusy, admitTimeout},
		{"over full", 3, nil, ErrBusy, admitTimeout},
		{"a place becomes free", 2, func(w *Writer, _ context.CancelFunc) { w.detached--; w.announce() }, nil, admitTimeout / 2},
		{"a place becomes free, not enough", 3, func(w *Writer, _ context.CancelFunc) { w.detached--; w.announce() }, ErrBusy, admitTimeout},
		{"closed meanwhile", 2, func(w *Writer, _ context.CancelFunc) { w.closed = true; w.announce() }, ErrClosed, admitTimeout / 2},
		{"the caller leaves", 2, func(_ *Writer, cancel context.CancelFunc) { cancel() }, context.Canceled, admitTimeout / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := &Writer{maxDetached: 2, detached: tt.detached, changed: make(chan struct{})}
				if tt.after != nil {
					go func() {
						time.Sleep(admitTimeout / 2)
						w.mu.Lock()
						defer w.mu.Unlock()
						tt.after(w, cancel)
					}()
				}
				start := time.Now()
				err := w.Admit(ctx)
				if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("admit error = %v, want %v", err, tt.want)
				}
				if got := time.Since(start); got != tt.waited {
					t.Errorf("waited %v, want %v", got, tt.waited)
				}
			})
		})
	}
}
