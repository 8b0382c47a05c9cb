package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
)

// The sentinels of this package. The error of a call is always a [*retry.Error], which says
// the outcome. It wraps one of these if the cause is on this side.
var (
	// ErrConfig: [New] refused a field of [Config]; the text names it. Or the [Client] is
	// nil, or the [IntentStore] is a nil pointer.
	ErrConfig = errors.New("sdk: bad config")
	// ErrNoParent: ctx carries no parent key. A random key cannot replace it: the key would
	// change after a restart, and the call would run twice. Use the ctx of a guarded
	// handler, [Begin], or childkey.NewContext with a key that was stored before the first
	// send.
	ErrNoParent = errors.New("sdk: no parent key in ctx; use the guarded handler's ctx, Begin or childkey.NewContext")
	// ErrNoService: the [Config] does not list a service of that name.
	ErrNoService = errors.New("sdk: service not configured")
	// ErrRequest: a request that cannot be sent: a path, method or header that
	// HTTP does not allow or that the sdk sets itself, an undo with the ctx of another
	// request.
	ErrRequest = errors.New("sdk: bad request")
	// ErrNoUndo: a call is to be undone, and its operation names nothing that undoes it. See
	// contract.Operation.UndoneBy.
	ErrNoUndo = errors.New("sdk: the operation names no undo; declare it with UndoneBy")
	// ErrHeaderFunc: [Service.HeaderFunc] returned an error, which is wrapped too.
	ErrHeaderFunc = errors.New("sdk: HeaderFunc failed")
)

// The sentinels of a [Fanout].
var (
	// ErrNoCalls: [Fanout.Wait] of a fan-out that was given nothing.
	ErrNoCalls = errors.New("sdk: fan-out without calls")
	// ErrBranch: a branch without a name, without a function, or with a name
	// that the fan-out has already; or without a fan-out.
	ErrBranch = errors.New("sdk: bad branch")
	// ErrPlan: another branch of the fan-out is wrong, so none was started.
	ErrPlan = errors.New("sdk: fan-out refused")
	// ErrWaited: the fan-out was given a branch after [Fanout.Wait].
	ErrWaited = errors.New("sdk: fan-out already waited for")
	// ErrCycle: a branch waits for itself, through others or directly.
	ErrCycle = errors.New("sdk: branches wait for each other")
	// ErrDependency: a branch that this one needs failed; a [DependencyError].
	ErrDependency = errors.New("sdk: dependency failed")
	// ErrPanic: a function panicked or ended its goroutine; a [PanicError].
	ErrPanic = errors.New("sdk: panic")
)

// field returns err as that of the configuration's field name.
func field(name string, err error) error {
	return fmt.Errorf("%s: %w", name, errtext.Inner(err, retry.ErrConfig, ErrRequest))
}

// refuse returns the error of a call that was stopped here: nothing was sent.
func refuse(service, operation string, key childkey.Key, err error) *retry.Error {
	return &retry.Error{
		Outcome: retry.NotSent, Evidence: "refused before the first attempt",
		Service: service, Operation: operation, Key: key, Err: err,
	}
}

// A DependencyError says that a branch failed because another one failed, whose result it
// needs. The branch is NotSent unless it had called something before. The error does not wrap
// that of the other branch, whose outcome is not this one's.
type DependencyError struct {
	Branch     string // that failed for it; "" outside of a branch
	Dependency string // the branch that it needs
	Err        error  // what Dependency failed with
}

// Error names both branches.
func (e *DependencyError) Error() string {
	return fmt.Sprintf("sdk: branch %s needs %s, which failed: %s", e.Branch, e.Dependency, errtext.Of(e.Err))
}

// Is matches [ErrDependency].
func (e *DependencyError) Is(target error) bool { return target == ErrDependency }

// A PanicError is a panic of a function, or its end by runtime.Goexit: of a branch of a
// [Fanout], or of a function of a saga.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine that panicked; nil after Goexit
}

// Error shows the value; the stack is in the field.
func (e *PanicError) Error() string { return fmt.Sprintf("sdk: panic: %v", e.Value) }

// Is matches [ErrPanic].
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// A FanoutError says what became of every branch of a fan-out of which at
// least one failed. With errors.Is and errors.As it matches what any of the
// failed ones does; where the outcome of one of them matters, look at Results.
// The reason to give to a customer is that of [RefusalOf].
type FanoutError struct {
	// Results are the results of all branches, those that succeeded too, in
	// the order in which they were given.
	Results []Result
}

// Error names every branch with its outcome, and the error of each branch that failed.
func (e *FanoutError) Error() string {
	failed := len(e.Unwrap())
	parts := make([]string, len(e.Results))
	for i, r := range e.Results {
		parts[i] = r.Name + ": " + r.Outcome.String()
		if r.Err == nil {
			continue
		}
		if text := errtext.Of(r.Err); strings.HasPrefix(text, parts[i]) { // a call names itself and its outcome
			parts[i] = text
		} else {
			parts[i] += " (" + text + ")"
		}
	}
	return fmt.Sprintf("sdk: %d of %d branches failed: %s", failed, len(e.Results), strings.Join(parts, "; "))
}

// Unwrap returns the errors of the branches that failed. Refusals of callees come first ([RefusalOf]), and calls that are
// only undone come last. Where another run can help one of them, none of them matches [retry.ErrNotRetryable]: a callee
// that forbids a retry of its own call does not forbid that run.
func (e *FanoutError) Unwrap() []error {
	var errs []error
	again := false
	for _, r := range e.Results {
		if r.Err != nil {
			errs = append(errs, r.Err)
			again = again || Resumable(r.Err) && !errors.Is(r.Err, retry.ErrNotRetryable)
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(rank(a), rank(b)) })
	if again {
		for i, err := range errs {
			if errors.Is(err, retry.ErrNotRetryable) {
				errs[i] = retryableError{err}
			}
		}
	}
	return errs
}

// rank orders the errors of branches by how much they tell about why the fan-out failed.
func rank(err error) int {
	switch {
	case isUndone(err):
		return 2
	case refusalIn(err) != nil:
		return 0
	}
	return 1
}

// isUndone reports whether err is of a call that was undone before it came, or came again.
func isUndone(err error) bool { return errors.Is(err, retry.ErrKeyCancelled) }

// refusalIn returns the final refusal of a branch or a call.
func refusalIn(err error) *retry.Error {
	var e *retry.Error
	if errors.As(err, &e) && e != nil && e.Outcome == retry.Rejected && !isUndone(err) && !Resumable(err) {
		return e
	}
	return nil
}

// RefusalOf returns why err, of a call or of a fan-out, is final: the first error in it by which a callee, or a function
// with [Rejected], refused for good. It is nil if there is none. A call that was undone (key-cancelled) was not refused. So a
// handler that undoes a fan-out, dies before its answer is stored and runs again finds the same refusal each time.
func RefusalOf(err error) *retry.Error {
	var fan *FanoutError
	if !errors.As(err, &fan) {
		return refusalIn(err)
	}
	for _, r := range fan.Results {
		if refused := refusalIn(r.Err); refused != nil {
			return refused
		}
	}
	return nil
}

// A retryableError is an error that matches all that err does but ErrNotRetryable.
type retryableError struct{ err error }

func (r retryableError) Error() string { return r.err.Error() }

func (r retryableError) Is(target error) bool {
	return target != retry.ErrNotRetryable && target != wire.ErrNotRetryable && errors.Is(r.err, target)
}

func (r retryableError) As(target any) bool { return errors.As(r.err, target) }
