package redisstore

// For tests in package redisstore_test.
var (
	Code        = code
	ScriptFiles = scriptFiles
)

// MaxRetries is how often the store's client repeats a call, on each kind of client; -1 and 0 mean never.
func MaxRetries(s *Store) int {
	if s.nodes.cluster != nil {
		return s.nodes.cluster.Options().MaxRetries
	}
	return s.nodes.single.Options().MaxRetries
}

// Pipelines is how many pipelines are on their way to the store's servers.
func Pipelines(s *Store) int {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	n := 0
	for _, q := range s.nodes.queues {
		q.mu.Lock()
		n += q.flushes
		q.mu.Unlock()
	}
	return n
}
