// Package saga runs plans that finish, or undo what they did, even if the
// process that started them never comes back.
//
// A saga is declared once, with [MustDefine]: typed steps over the operations
// of package contract, each with what undoes it. [Definition.Run] runs one
// under a parent key, attaches to it if it is under way, or returns its stored
// result. An [Engine], one per process, drives sagas; a [Journal] remembers
// them (pgjournal in Postgres, memjournal in memory).
//
// Each call has the child key of its operation under the saga's key, so that
// callees run it once, however often it is sent: after a crash another process
// sends again what may have been lost. So a plan is data, not code to be
// replayed, and there are no rules of determinism beyond pure functions in
// [Map].
//
// How a call ended is a retry.Outcome. What completed, and what nobody could
// find out about, is undone when a saga fails; what was refused is not. A saga
// whose undo cannot finish is stuck: [Config].OnStuck hears of it, [Engine.List]
// shows it, and people move it on with [Engine.Retry] and the other verbs.
//
// DESIGN.md draws the states and says who writes what when. The package knows
// neither a server nor a database.
package saga
