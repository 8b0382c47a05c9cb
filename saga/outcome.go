package saga

import (
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/engine"
)

// Rejected returns err as the error of a function that knows that it had no effect and
// never will; nor had an earlier attempt of it. The step is not tried again, and is not
// undone. From the function of an undo it means that the undo is refused: the saga is
// stuck. The result wraps a *retry.Error and err. Nil stays nil.
//
// If a [*retry.Error] is in err, the saga's [Error] has its status, code, detail and body.
// A code of package wire is left out: it speaks for a single call.
func Rejected(err error) error { return engine.Say(retry.Rejected, false, err) }

// NotSent returns err as the error of a function that knows that this attempt of it had no
// effect. The step is tried again until its time is up. It is not undone, unless an
// earlier attempt may have had an effect. The result wraps a *retry.Error and err. Nil stays
// nil.
func NotSent(err error) error { return engine.Say(retry.NotSent, false, err) }

// Permanent returns err as the error of a function that may have had an effect, and that
// another attempt cannot help. The step is not tried again, and is undone. Without an undo
// the saga is stuck, unless the step is ReadOnly or Irreversible. An undo that says so
// makes the saga stuck, too. The result wraps a *retry.Error and err. Nil stays nil.
func Permanent(err error) error { return engine.Say(retry.Unknown, true, err) }
