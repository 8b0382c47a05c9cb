// Package redisstore keeps the records of a guard in Redis, from version 6.2 on, in Valkey, or in a cluster of either,
// with go-redis.
//
// [Open] opens the store, or [OpenClient] with the options of a client that the service has. They refuse servers that would
// lose what they acknowledged.
//
//	options, err := redisstore.ParseURL(os.Getenv("REDIS_URL"))
//	…
//	store, err := redisstore.Open(ctx, options, redisstore.Config{Replicas: 1})
//	…
//	defer store.Close()
//
// What each setting lost of 100,000 acknowledged claims, each fault repeated 7 to 13 times in half a minute
// (redis-server 7.0.15, one machine; README.md has the conditions):
//
//	setting                                                  lost    safe for
//	one server, always, SIGKILL                              0       Keyed, Opaque, unless the disk is lost
//	one server, everysec, SIGKILL                            0       Keyed: a slow disk lost 4 of 3,000
//	one server, everysec, power loss (simulated)             21,031  Keyed
//	replica promoted, old primary gets calls for 0.5 s       12,759  Keyed
//	the same with Replicas 1                                 0       Keyed, Opaque
//	cluster, everysec, SIGKILL of a primary                  0       Keyed: what the replica had not got is lost
//	cluster, everysec, SIGKILL of a primary, Replicas 1      0       Keyed, Opaque
//
// Each lost claim was a second run. A 0 was measured, and proves nothing.
//
// # When to choose it
//
// Choose it for Keyed and Opaque routes of a service that has Redis and no Postgres. It passes the conformance suite of
// servertest. With Postgres, choose pgstore: there a Transactional handler's rows commit together with the answer.
// Redis cannot do that, so this store has no transactions and no completion hooks, and a guard refuses Transactional
// routes when they are made.
//
// Redis acknowledges before it is safe, unless the settings say otherwise. A lost claim lets a second run begin beside
// the first one or after it. A Keyed route converges, because the next services repeat their answers under the same child
// keys. An Opaque route has its effect twice.
//
// # Operations
//
// server.Guard.RunSweeper must run in one process at least: it deletes records. Redis deletes by itself what nobody has
// swept for an hour, but not unknown or quarantined keys, nor runs of Opaque handlers. A job of yours calls
// [Store.PruneAudit]. Leases are by the clock of the server that has the key. After a failover that is another
// machine's: keep the clocks together within a small part of a lease (NTP).
//
// README.md has the data, the scripts, and more about failovers.
package redisstore
