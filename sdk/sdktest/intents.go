package sdktest

import (
	"context"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// Intents is an sdk.IntentStore in memory: what survives a process that a test
// lets die. The zero Intents is empty and ready. It is safe for concurrent use.
type Intents struct {
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time

	mu    sync.Mutex
	began map[childkey.Key]time.Time
	err   error
}

// Fail makes every later Begin return err and store nothing; nil ends that.
func (s *Intents) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Begin implements sdk.IntentStore.
func (s *Intents) Begin(_ context.Context, parent childkey.Key, _ string, _ []string) (time.Time, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return time.Time{}, false, s.err
	}
	began, existed := s.began[parent]
	if !existed {
		began = s.now()
		if s.began == nil {
			s.began = make(map[childkey.Key]time.Time)
		}
		s.began[parent] = began
	}
	return began, existed, nil
}

func (s *Intents) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}
