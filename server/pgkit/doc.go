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
//   - A flush that changed nothing, for whatever reason, is taken apart: each
//     caller sends its own write alone, under its own ctx. Where a lane knows
//     better (Again in [LaneConfig]) it comes once more before that.
//   - A flush whose fate is unknown leaves each of its writes so, and each caller
//     does what it does about a single write: it asks again.
//   - A flush without an answer after 50 ms does not count as under way. It has met
//     a lock, a dead standby or a dead connection, and those behind it need not.
//   - Full is full: [ErrQueueFull], at once, and nothing was sent.
//
// A [Gatherer] does the same for reads, which have no commit to share and no fate.
//
// The package knows Postgres and pgx, and nothing of keys, claims or sagas.
// Nothing in it depends on a session, so that it works behind a pooler in
// transaction mode: no LISTEN, no session-level advisory lock, no SET outside a
// transaction. Statements are prepared by name only on connections that no pooler
// stands behind, and are sent without where a name turns out to be lost.
package pgkit
