// Package pgkit is what the Postgres packages of this module share: writes whose
// fate is never guessed, and that share commits where many wait, statements kept
// in files, numbered migrations, and the checks that a server must pass before its
// word is taken for durable.
//
// Start with [Prepare], which makes a pool's connections report what the rest
// needs to see; [Writer], which sends writes through it; and [Migrations].
//
// # Combining
//
// A commit that is durable costs a flush of the server's log, whether it brings one
// row or hundreds. A [Combiner] lets callers that wait at the same time share
// one; each still gets its own answer, and fails alone. [NewLane] says how one kind
// of write is sent by itself and how many are. A lane suits writes that touch
// a row each and are complete in one statement; a transaction with work of the
// user's in it, or one that has to hold a lock for long, does not belong there.
//
// The rules, in the order in which they decide:
//
//   - A write that finds nothing under way goes at once, as the statement of its
//     own that it would be without a combiner.
//   - Else it is queued, and goes with all others that are queued when a flush
//     ends. A further flush begins earlier, at four queued for each that is under
//     way, and no fewer than those carry on average: one that begins too early
//     carries few.
//   - A flush is one round trip and one transaction. Its leader is the caller that
//     has waited longest. If the leader goes away, the flush does not.
//   - A flush that the server refused goes again as the single statements of its
//     writes, in one transaction. The write that fails is set aside with its error, and
//     the others share a commit without it. So a locked row, or a write that cannot
//     succeed, costs the others a round trip.
//   - A flush that changed nothing for another reason is taken apart: each caller sends
//     its own write alone, under its own ctx, and few do at a time. Where a lane knows
//     better (Again in [LaneConfig]) its writes come once more before that.
//   - A flush whose fate is unknown leaves each of its writes so, and each caller
//     does what it does about a single write: it asks again.
//   - A flush without an answer after 50 ms does not delay the next one, but it keeps
//     its place: no more than MaxFlushes are under way, whatever they wait for. One
//     connection of the pool is always left for others.
//   - A flush without an answer after five seconds loses its connection, and its fate is
//     unknown; see [Writer]. While nothing is answered, one flush at a time is sent.
//   - A leader whose connection was refused fails alone. The others wait for the
//     connections that the pool has; where it has none, all hear of it.
//   - Full is full: [ErrQueueFull], at once, and nothing was sent.
//
// A [Gatherer] does the same for reads, which have no commit to share and no fate.
//
// # A server that vanishes
//
// No single bound covers a server that vanishes without a packet, as in a power cut before
// a failover. So there are several:
//
//   - a write that nobody waits for any more, or a flush, loses its socket after a bound.
//     This also holds where the other end acknowledges and never answers;
//   - then no older connection to that server is used, and new connections try the other
//     hosts of the connection string first;
//   - a connection that was idle for a second answers a ping within three seconds, or the
//     same follows;
//   - a connection attempt has five seconds for each host, unless the connection string
//     says something else;
//   - the kernel drops a connection without acknowledgements after about ten seconds, where
//     the platform has keepalive probes and TCP_USER_TIMEOUT.
//
// In none of these cases a cancel request is sent.
//
// The package knows Postgres and pgx, and nothing of keys, claims or sagas.
// Nothing in it depends on a session, so that it works behind a pooler in
// transaction mode: no LISTEN, no session-level advisory lock, no SET outside a
// transaction. Statements are prepared by name only on connections that no pooler
// stands behind, and are sent without where a name turns out to be lost.
package pgkit
