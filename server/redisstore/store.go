package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

// A Store keeps records in Redis. It is safe for concurrent use, by many processes. Make one with [Open].
//
// A method returns an error wrapping [store.ErrFateUnknown] if it is not known whether a write happened, or whether a
// failover keeps it ([ErrUnconfirmed]). Any other error means that nothing changed. No method is repeated by the store
// after its answer was lost.
//
// It does not implement [store.TxStore], because the effects of a handler cannot be in a transaction with its record. So
// a guard refuses Transactional routes when they are made, and completion hooks of Keyed handlers.
type Store struct {
	cfg     Config
	client  redis.UniversalClient
	nodes   *nodes
	buckets [buckets]bucket
	watch   *watcher

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	work    sync.WaitGroup // calls and pipelines on their way
}

var _ store.WatchStore = (*Store)(nil)

// newStore returns the store over a client that it owns from now on.
func newStore(client redis.UniversalClient, cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, client: client, closing: make(chan struct{})}
	for i := range s.buckets {
		s.buckets[i] = newBucket(cfg.Prefix, i)
	}
	s.watch = newWatcher(s)
	var err error
	s.nodes, err = newNodes(s, client)
	return s, err
}

// channel is where ends of runs are published that another process waits for.
func (s *Store) channel() string { return s.cfg.Prefix + ":ended" }

// enter reports whether the store is open. Then the caller calls s.work.Done.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// Close refuses further calls with [ErrClosed], waits for those that are on their way for at most
// [Config].CloseTimeout, and closes the connections. It closes the channels of [Store.Watch]. A second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	wasClosed := s.closed
	s.closed = true
	s.mu.Unlock()
	if wasClosed {
		return nil
	}
	close(s.closing)
	s.watch.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.work.Wait()
	}()
	timer := time.NewTimer(s.cfg.CloseTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	err := s.client.Close() // which breaks what is still on its way
	<-ended
	return err
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	b := s.bucketOf(id)
	value, err := s.do(ctx, readScript, b, []string{b.record(id)}, -1)
	if err != nil {
		return store.Record{}, err
	}
	return readReply(id, value)
}

// readReply returns the record of a reply of read.lua.
func readReply(id store.ID, value any) (store.Record, error) {
	l := list(value)
	now, err := clock(l, 0)
	if err != nil {
		return store.Record{}, err
	}
	if text(l, 2) == "" {
		return store.Record{}, store.ErrNotFound
	}
	return decode(id, text(l, 2), now)
}
