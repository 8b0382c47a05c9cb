// Package pgkit is shared by the Postgres packages of this module. It sends writes whose
// fate is never guessed, and lets writes that wait at the same time share a commit. It loads
// statements from files.
//
// Start with [Prepare], which makes a pool's connections report what the rest needs to see, and
// [Writer], which sends writes through it. The package component beside it joins them for a package
// that keeps tables.
//
// # Combining
//
// A commit that is durable costs a flush of the server's log, whether it brings one row or
// hundreds. A [Combiner] lets callers that wait at the same time share a commit. Each still gets
// its own answer, and fails alone. [NewBatchKind] says how a write of one kind is sent by itself,
// and how several are sent together. A kind suits writes that touch a row each and are complete in
// one statement. It does not suit a transaction with the user's own work, or a transaction that
// holds a lock for long.
//
// The rules, in the order in which they decide:
//
//   - A write that finds no flush running goes at once, as the statement that it would be without a
//     combiner.
//   - Else it is queued, and goes with all others that are queued when a flush ends. A further
//     flush begins earlier, if four writes are queued for each running flush, and no fewer than the
//     running flushes carry on average. A flush that begins too early carries few writes.
//   - A flush is one round trip and one transaction. Its leader is the caller that
//     has waited longest. If the leader goes away, the flush does not.
//   - A flush that the server refused goes again as the single statements of its
//     writes, in one transaction. The write that fails is set aside with its error, and
//     the others share a commit without it. So a locked row, or a write that cannot
//     succeed, costs the others a round trip.
//   - A flush that changed nothing for another reason is taken apart: each caller sends its own
//     write alone, under its own ctx, a few at a time.
//   - A flush whose fate is unknown leaves the fate of each of its writes unknown. Each caller does
//     the same as after a single write: it asks again.
//   - A flush without an answer after 50 ms does not delay the next one, but it keeps its place: no
//     more than MaxFlushes run at once, whatever they wait for. They
//     leave one connection of a pool of several to others.
//   - A flush without an answer after five seconds loses its connection, and its fate is
//     unknown; see [Writer]. While nothing is answered, one flush at a time is sent.
//   - A commit is asynchronous only if each write of the flush allows it, and if the pool has lost no
//     connection for ten minutes.
//   - A leader whose connection was refused fails alone. The others wait for the connections that
//     the pool has; if it has none, all callers get the error.
//   - A write that ends work which another write began goes before those that begin work. It is always
//     admitted, so that what is finished is recorded under any load.
//   - Another write that finds the queue full gets [ErrQueueFull] at once, and is not sent.
//
// The combiner of [NewReadCombiner] does the same for reads. Reads share no commit, and it does not
// matter whether the server has executed one that failed.
//
// # A server that vanishes
//
// No single bound covers a server that vanishes without a packet, as in a power cut before
// a failover. So there are several:
//
//   - A write whose caller has left, or a flush, loses its socket after a bound. This also holds if
//     the other end acknowledges and never answers.
//   - Then no older connection to that server is used, and new connections try the other hosts of
//     the connection string first.
//   - A connection that was idle for a second answers a ping within three seconds, or the same
//     follows.
//   - A connection attempt has five seconds for each host, unless the connection string says
//     something else.
//   - The kernel drops a connection without acknowledgements after about ten seconds, where the
//     platform has keepalive probes and TCP_USER_TIMEOUT.
//
// No cancel request is sent in any of these cases.
//
// The package knows Postgres and pgx. It does not know keys, claims or sagas. It depends on no
// session, so that it works behind a pooler in transaction mode: no LISTEN, no session-level
// advisory lock, no SET outside a transaction. Statements are prepared by name only on connections
// that no pooler stands behind, and are sent without a name if the name turns out to be lost.
package pgkit
