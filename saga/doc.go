// Package saga runs plans that finish, or undo what they did, even if the
// process that started them never comes back.
//
// A saga is declared once, with [MustDefine]: typed steps over the operations
// of package contract, each with what undoes it. [Definition.Run] runs one
// under a parent key, attaches to it if it is under way, or returns its stored
// result. An [Engine], one per process, drives sagas; a [Journal] remembers
// them (pgjournal in Postgres, memjournal in memory).
//
// A saga is known by its [Scope], its definition's name and its key. Each call has
// the child key of its operation, under a parent key that derives from these three
// values. Callees therefore run it once, however often it is sent: after a crash
// another process sends again what may have been lost. So a plan is data, not code to be
// replayed, and there are no rules of determinism beyond pure functions in
// [Map].
//
// How a call ended is a retry.Outcome. What completed, and what nobody could
// find out about, is undone when a saga fails; what was refused is not. A saga
// whose undo cannot finish is stuck: [Config].OnStuck hears of it, [Engine.List]
// shows it, and people move it on with [Engine.Retry] and the other verbs. An
// [Operator] has the same methods without an engine, for a command line or a console. An
// [Observer] hears of all that an engine does; [Metrics] counts it.
//
// # How long it takes
//
// A step that can fail is tried ten times, in about five minutes, unless its
// [RetryPolicy] or its Timeout says otherwise. After that the saga is compensated. Undos,
// and the steps past the pivot, must succeed: they are tried for a day
// ([Builder.UndoBudget]) before the saga is stuck. A saga that waits for an engine, as one
// that a transaction stored, loses no time: everything counts from when the first engine
// got it.
//
// # What grows
//
// A journal keeps every saga until somebody sweeps it. Let [Engine.RunSweeper] run in one
// process or in each: it deletes sagas that are over for longer than [Config].Keep. A job
// without an engine calls [Operator.Sweep]. A saga that is stuck stays until people have moved
// it on, and the audit log until somebody deletes it (pgjournal's PruneAudit).
//
// # Changes
//
// What is stored of a saga is read by whatever process takes it over, which may be an
// older build: during a deployment both run. A new member in the input, in an output or
// in the result therefore needs a new version of the definition, as other steps do;
// older processes leave such sagas to newer ones. Under the same version it may be added
// if all processes change at once, or as long as it is zero and left out (omitempty,
// omitzero). [Define] says more.
//
// # What others see meanwhile
//
// A saga is not isolated: between its steps everybody sees what it did so far, and
// some of that is undone again. What helps against it is the author's, and mostly a
// matter of what the steps are and of their order:
//
//   - Mark what is not final. A step reserves (a hold, an authorization, an order
//     that is "pending") and a later one confirms; others see the mark, and wait or
//     refuse. [FromContext] has the saga's ID: kept with the mark it is a lock in the
//     callee's own terms, which the undo or the confirmation of that saga, and no
//     other, takes away.
//   - Hold the surplus. Of two orders of steps take the one in which a saga that
//     fails leaves too much in your hands for a while, not in somebody else's:
//     take the money before the goods are sent, block the seat before it is paid.
//   - Change by what commutes. "Add 5" and its undo "take 5" leave right sums
//     whoever else adds meanwhile; "set to 105" and "set to 100" lose what others did.
//   - Show the pessimistic side. Put what would hurt most if read too early last,
//     in the pivot or behind it: what is retriable is not undone, so nobody acts
//     on what then never was.
//   - Read again before you rely on it. A value that an earlier step read may have
//     changed since; pass its version to the step that acts on it, and have the
//     callee refuse if it is another by then. That is a refusal like any other, and
//     the saga is compensated.
//   - Keep a file of versions. Where requests of several sagas can overtake each
//     other at a callee, let it note what it was asked for, and apply that by rank
//     and not by arrival. For an undo and its own forward call package server does
//     that already, with Barrier.
//
// DESIGN.md draws the states and says who writes what when. The package knows
// neither a server nor a database.
package saga
