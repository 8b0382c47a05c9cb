package sdk

import (
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// The sentinels of this package. What a call returns is always a
// [*retry.Error], which says the outcome and wraps one of these where the
// cause is on this side.
var (
	// ErrConfig: [New] refused a field of [Config]; the text names it. Or there is
	// no [Client] to make a call with, or a nil pointer in place of an [IntentStore].
	ErrConfig = errors.New("sdk: bad config")
	// ErrNoParent: ctx carries no parent key. There is no substitute: a random
	// key would be another one after a restart, and the call would run twice.
	// Use the ctx of a guarded handler, [Begin], or childkey.NewContext with a key
	// that was stored before the first send.
	ErrNoParent = errors.New("sdk: no parent key in ctx; use the guarded handler's ctx, Begin or childkey.NewContext")
	// ErrNoService: the [Config] has no service of that name.
	ErrNoService = errors.New("sdk: service not configured")
	// ErrRequest: a request that cannot be sent: a path, method or header that
	// HTTP does not allow or that the sdk sets itself, an undo of another service's
	// call.
	ErrRequest = errors.New("sdk: bad request")
	// ErrPrepare: [Service.Prepare] returned an error, which is wrapped too.
	ErrPrepare = errors.New("sdk: prepare failed")
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
	// ErrCycle: a branch waits for itself, through others or directly, or for its fan-out.
	ErrCycle = errors.New("sdk: branches wait for each other")
	// ErrDependency: a branch that this one needs failed; a [DependencyError].
	ErrDependency = errors.New("sdk: dependency failed")
	// ErrPanic: a branch panicked or ended its goroutine; a [PanicError].
	ErrPanic = errors.New("sdk: branch panicked")
)

// field returns err as that of the configuration's field name.
func field(name string, err error) error { return fmt.Errorf("%s: %w", name, err) }

// refuse returns the error of a call that was stopped here: nothing was sent.
func refuse(service, operation string, key childkey.Key, err error) *retry.Error {
	return &retry.Error{
		Outcome: retry.NotSent, Evidence: "refused before the first attempt",
		Service: service, Operation: operation, Key: key, Err: err,
	}
}
