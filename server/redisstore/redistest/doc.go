// Package redistest starts Redis servers for tests: one with [Start], a cluster with [StartCluster]. Each has a folder
// and a port of its own, and is gone when the test ends. The servers are of the redis-server on PATH, or of the file in
// REDISTEST_SERVER, which may be Valkey's.
//
//	server := redistest.Start(t)
//	store, err := redisstore.Open(t.Context(), &redis.UniversalOptions{Addrs: []string{server.Addr()}}, redisstore.Config{})
package redistest
