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
//	servers  sync_interval  a killed process  power of one server  power of all servers  safe for
//	1        always         nothing           nothing              nothing               Keyed, Opaque
//	1        default        nothing           up to 2 minutes      up to 2 minutes       Keyed that converges
//	3        always         nothing           nothing              nothing               Keyed, Opaque
//	3        default        nothing           see below            up to 2 minutes       Keyed that converges
//
// A lost claim or answer means that the key can run a second time. A Keyed run that repeats converges, because the
// services that it calls still know its child keys. An Opaque run that repeats has its effect twice. So Opaque routes
// need sync_interval: always. [Open] refuses servers that do not report it, and servers about which nobody has said
// anything: see [Durability].
//
// The first column is measured: bench kills servers with SIGKILL and counts, and its README has the numbers. A kill
// leaves the kernel's page cache, so the columns about power are not measured. They follow from the setting, and from
// Jepsen's report on NATS 2.12.1 (jepsen.io/analyses/nats-2.12.1): with the default, a power failure of several servers
// at once lost acknowledged messages. So did that of one of them, if another was paused or cut off. The report also
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
