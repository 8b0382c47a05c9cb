// Package natsstore keeps the records of a guard in a key-value bucket of NATS JetStream, version 2.11 or later.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	…
//	cfg := natsstore.Config{Durability: natsstore.FlushEachWrite} // says that every server has sync_interval: always
//	err = natsstore.Create(ctx, conn, cfg)                          // once; or any tool that makes a KV bucket
//	…
//	store, err := natsstore.Open(ctx, conn, cfg)
//	…
//	defer store.Close()
//
// # What a failure can lose
//
// The setting that decides is sync_interval in the jetstream block of every server. Its default is two minutes:
// acknowledged writes are not on the disk before.
//
//	servers  sync_interval  fault, again and again            claims lost of acknowledged  safe for
//	1        always         SIGKILL                           0 of 5,000                   Keyed, Opaque
//	1        always         power (simulated)                 0 of 20,000
//	1        default        SIGKILL                           0 of 40,000                  Keyed that converges
//	1        default        power (simulated)                 16,575 of 20,000
//	3        always         SIGKILL of the leader and others  0 of 100,000                 Keyed, Opaque
//	3        always         SIGKILL of all at once            0 of 30,000
//	3        always         power of all at once (simulated)  0 of 10,000
//	3        always         power of one at a time (sim.)     0 of 10,000
//	3        default        SIGKILL of the leader and others  0 of 100,000                 Keyed that converges
//	3        default        SIGKILL of all at once            0 of 20,000
//	3        default        power of all at once (simulated)  7,008 of 10,000
//	3        default        power of one at a time (sim.)     0 of 4,000; a run of 10,000 ended without a leader
//
// A lost claim or answer means that the key can run a second time. A Keyed run that repeats converges, because the
// services that it calls still know its child keys. An Opaque run that repeats has its effect twice. So Opaque routes
// need sync_interval: always. [Open] refuses servers that do not report it, and servers about which nobody has said
// anything: see [Durability].
//
// Package bench counted this on one machine; its README has the conditions. A 0 is what was seen, and no proof. Jepsen's
// report on NATS 2.12.1 (jepsen.io/analyses/nats-2.12.1) agrees: with the default, a power failure of several servers at
// once lost acknowledged messages. So did that of one of them, if another was paused or cut off. The report also
// found losses after damage to the files of one server. No setting here prevents those.
//
// # What it can do
//
// A guard over this store serves Keyed and Opaque routes. JetStream cannot commit a record together with the rows of a
// handler: [server.NewGuard] and the routes refuse Transactional, completion hooks and OneCommit.
//
// The clock of the bucket's leader times every lease. A new leader has another clock: keep the servers' clocks together
// (NTP), far closer than a lease.
//
// DESIGN.md says on which reply each decision rests. Package natstest, a module of its own, starts servers for tests.
//
// [server.NewGuard]: https://pkg.go.dev/github.com/fanonce/fanonce/server#NewGuard
package natsstore
