// Package saga runs plans that finish, or that undo what they did. This holds even if the
// process that started a saga never comes back.
//
// Declare a saga once, with [MustDefine]: typed steps over the operations of package
// contract, each with the operation that undoes it. [Open] starts an [Engine], one in each
// process. A [journal.Journal] keeps the sagas: pgjournal in Postgres, memjournal in memory.
// [Definition.Run] runs a saga under a parent key. It attaches to a saga that is running
// already, and returns the stored result of a finished saga.
//
// A saga is known by its [Scope], the name of its definition and its key. The child keys of
// its calls derive from these three values. Callees therefore run each call once, however
// often it is sent. After a crash another process sends again the calls that may be lost. A
// plan is data and not code that is replayed: only the functions of [Map] must be pure.
//
// The outcome of a call is a retry.Outcome. A saga that fails undoes the calls that are
// Completed or Unknown, and no call that was Rejected. It ends with an [*Error]. A saga whose
// undo cannot finish is stuck. [Config].OnStuck and [Engine.Reader] report it, and a person
// moves it with [Engine.Retry] or another verb. An [Operator] has these verbs without an
// engine. An [Observer] gets every event, and [Metrics] counts them.
//
// A step that can fail has ten attempts in about five minutes, unless its [RetryPolicy] or
// Timeout differs. Then the saga is compensated. Undos and the steps past the pivot must
// succeed: they have a day ([Builder.UndoBudget]) before the saga is stuck.
//
// A step may have a condition ([StepRef.When]), or be left out if it is refused ([StepRef.Optional]). [StepRef.Or] is its
// output, or another value if it was skipped.
//
// A step may be called for each item of a list that only the saga knows, such as the lines of an order ([Each]). Each call
// has a key and an undo of its own.
//
// A saga may live for months: [Sleep] is a step that ends by time, [Await] one that ends by a value from outside, such as an
// approval ([Signal.Send]), and [StartAt] begins a saga later. Each of its calls is
// as old as its own first attempt, so callees take the first call of an old saga, and refuse only what they may have
// forgotten (key-expired).
//
// A journal keeps every saga until it is swept. Let [Engine.RunSweeper] run, or call
// [Operator.Sweep] from a job. A stuck saga stays until a person has moved it.
//
// During a deployment, older and newer processes read the same sagas. Other steps, or a new
// member in an input, output or result, need a new version of the definition. [Define] has
// the rules. Sagas of both versions run side by side. [Operator.Migrate] moves one that waits to
// another version, if that is the same in all that has begun.
//
// A saga is not isolated: between its steps everybody sees its effects so far, and some of them are
// undone later. Mark a state that is not final, such as a hold or an order that is pending; with the
// saga's ID ([FromContext]) the mark is a lock. Hold the surplus: take the money before the goods are
// sent. Use changes that commute: "add 5", and not "set to 105". Put the effect that hurts most if it
// is read too early last, in the pivot or behind it. Read a value again before you rely on it: pass
// its version to the step that acts on it.
//
// DESIGN.md has the states of a saga. The package knows no server and no database.
package saga
