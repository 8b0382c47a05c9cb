package saga

import (
	"slices"
	"sync"
	"time"
)

// maxWakes is how many wakes an engine remembers. A saga whose wake it does not remember is
// found by the next look, at most a Poll later.
const maxWakes = 1024

// wakes are the times, by this process's clock, at which sagas wake up that the engine gave
// up: the next ones of them. The claim loop looks then, and need not wait for its Poll.
type wakes struct {
	mu    sync.Mutex
	times []time.Time // the earliest first
}

func (w *wakes) add(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.times, t, time.Time.Compare)
	w.times = slices.Insert(w.times, i, t)
	w.times = w.times[:min(len(w.times), maxWakes)]
}

// next returns how long it is until the next one, but at most d. It forgets those that are
// over.
func (w *wakes) next(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	over, _ := slices.BinarySearchFunc(w.times, now.Add(1), time.Time.Compare)
	w.times = slices.Delete(w.times, 0, over)
	if len(w.times) == 0 {
		return d
	}
	return min(d, w.times[0].Sub(now))
}
