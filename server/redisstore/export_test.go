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
