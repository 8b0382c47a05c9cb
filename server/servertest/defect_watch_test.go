package servertest

import (
	"context"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

func closed() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

var watchDefects = []defect{
	{"tells nobody anything", func(m *mutant) {
		m.watch = func(store.ID, int64) (<-chan struct{}, func()) { return make(chan struct{}), func() {} }
	}, []string{
		"watch: every end of a run closes the channel",
		"watch: a watch on a run that has ended closes the channel",
		"watch: every channel is closed unless its watcher stopped",
		"watch: an end between Read and Watch closes the channel",
	}},
	{"tells everybody at once", func(m *mutant) {
		m.watch = func(store.ID, int64) (<-chan struct{}, func()) { return closed(), func() {} }
	}, []string{
		"watch: a channel stays open while the run goes on",
		"watch: a watch on a run that has ended closes the channel",
	}},
	{"tells of completions only", func(m *mutant) {
		m.watch = func(id store.ID, fence int64) (<-chan struct{}, func()) {
			ended, stop := m.Store.Watch(id, fence)
			told := make(chan struct{})
			go func() {
				<-ended
				if r, err := m.Store.Read(context.Background(), id); err == nil && r.State == store.StateCompleted {
					close(told)
				}
			}()
			return told, stop
		}
	}, []string{"watch: every end of a run closes the channel"}},
	{"tells of renewals", func(m *mutant) {
		var mu sync.Mutex
		news := make(map[store.ID]chan struct{})
		m.watch = func(id store.ID, _ int64) (<-chan struct{}, func()) {
			mu.Lock()
			defer mu.Unlock()
			news[id] = make(chan struct{})
			return news[id], func() {}
		}
		m.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range owners {
				if ended := news[o.ID]; ended != nil {
					close(ended)
				}
			}
			return m.Store.Renew(ctx, owners, lease)
		}
	}, []string{"watch: a channel stays open while the run goes on"}},
	{"watches what comes, and does not look at what is", func(m *mutant) {
		m.watch = func(id store.ID, fence int64) (<-chan struct{}, func()) {
			ended, stop := m.Store.Watch(id, fence)
			select {
			case <-ended:
				return make(chan struct{}), stop
			default:
				return ended, stop
			}
		}
	}, []string{
		"watch: a watch on a run that has ended closes the channel",
		"watch: an end between Read and Watch closes the channel",
	}},
	{"does not tell the runs of a key apart", func(m *mutant) {
		m.watch = func(id store.ID, _ int64) (<-chan struct{}, func()) {
			r, err := m.Store.Read(context.Background(), id)
			if err != nil {
				return closed(), func() {}
			}
			return m.Store.Watch(id, r.Fence)
		}
	}, []string{"watch: a watch on a run that has ended closes the channel"}},
	{"stops all who watch with the first who does not want to", func(m *mutant) {
		var mu sync.Mutex
		stops := make(map[store.ID][]func())
		m.watch = func(id store.ID, fence int64) (<-chan struct{}, func()) {
			ended, stop := m.Store.Watch(id, fence)
			mu.Lock()
			defer mu.Unlock()
			stops[id] = append(stops[id], stop)
			return ended, func() {
				mu.Lock()
				defer mu.Unlock()
				for _, stop := range stops[id] {
					stop()
				}
			}
		}
	}, []string{"watch: every channel is closed unless its watcher stopped"}},
}
