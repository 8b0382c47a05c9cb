package sdk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// The sentinels of [Begin].
var (
	// ErrHasParent: ctx carries a parent key already, as a guarded handler's does.
	// Its calls are that request's, and must not get another parent.
	ErrHasParent = errors.New("sdk: ctx has a parent key already")
	// ErrIntentStore: the intent could not be stored, so nothing may be sent. The
	// store's error is wrapped too. Begin again: it stores nothing twice.
	ErrIntentStore = errors.New("sdk: intent store failed")
)

// An IntentStore stores the requests that a program begins, until the program can no longer
// begin them again. pgstore.Intents is one; sdktest.Intents is one for tests.
type IntentStore interface {
	// Begin stores that a request with this parent key begins, durably before it returns,
	// unless that is stored already. It returns when it was first stored, by one clock for
	// all processes, and whether that was before this call. If several processes call it at
	// once, existed is false for at most one of them. namespace and parts are the arguments
	// of [Begin]. They help people to find requests that were never finished.
	Begin(ctx context.Context, parent childkey.Key, namespace string, parts []string) (began time.Time, existed bool, err error)
}

// Begin returns ctx with a parent key, for a program whose request nobody gave a
// key: a job, a consumer, a command. The key is childkey.FromParts of namespace
// and parts, the request's business id and its revision, so a process that
// starts over, or another one, begins with the same key:
//
//	ctx, err := sdk.Begin(ctx, intents, "checkout", "order-42", "rev-1")
//
// The same namespace and parts mean the same request. Where two tenants can have the same
// business id, the tenant is one of the parts.
//
// The store remembers, before anything is sent, that the request has begun, and since when.
// So a first run can tell a refusal from a lost call. In later runs calls start as Unknown.
// Calls say when they were first sent, and no process sends a call past its callee's
// retention. A nil store remembers nothing: then every run counts as a later one, and
// nobody knows how old the request is. The store grows until the program marks requests as
// done and sweeps them. With pgstore.Intents call Done and Sweep: the library does not call
// them.
//
// Begin blocks for the store alone. It returns [ErrHasParent], [ErrIntentStore],
// [ErrConfig] for a store that is a nil pointer, which is taken for a mistake, or the
// errors of childkey.FromParts.
func Begin(ctx context.Context, store IntentStore, namespace string, parts ...string) (context.Context, error) {
	if _, ok := childkey.FromContext(ctx); ok {
		return nil, ErrHasParent
	}
	parent, err := childkey.FromParts(namespace, parts...)
	if err != nil {
		return nil, err
	}
	if v := reflect.ValueOf(store); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the IntentStore is a nil %T", ErrConfig, store)
	}
	in, _ := wire.FromContext(ctx)
	in.FirstSent, in.Rerun = time.Time{}, true
	if store != nil {
		in.FirstSent, in.Rerun, err = store.Begin(ctx, parent, namespace, slices.Clone(parts))
		if err == nil && in.FirstSent.IsZero() {
			err = errors.New("the IntentStore returned the zero time")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrIntentStore, err)
		}
	}
	return childkey.NewContext(wire.NewContext(ctx, in), parent), nil
}
