package server

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
)

// InboundKey returns the key of the run as it arrived: the key in the request's
// Idempotency-Key header, the key given to [Do], or [Inbox.Key] of the message.
// Use it to find what the caller asks for, together with the scope: another
// caller may use the same key. The parent key of the run's own calls is another
// key, the hop key; see [childkey.FromContext].
//
// It returns false outside a run.
func InboundKey(ctx context.Context) (childkey.Key, bool) {
	t := turnFrom(ctx)
	if t == nil {
		return childkey.Key{}, false
	}
	return t.run.call.key, true
}

// ForwardKey returns what [childkey.FromContext] returned in the run that this
// request undoes: the hop key of the forward key. An undo handler finds the rows
// of the forward run with it. It undoes the calls of the forward run under
// childkey.NewContext(ctx, key).
//
// The scope and the namespace are those of the undo, which must come from the
// forward call's caller. ForwardKey returns false outside a run, and for a
// request that is no undo.
func ForwardKey(ctx context.Context) (childkey.Key, bool) {
	if t := turnFrom(ctx); t != nil {
		return t.run.call.forwardHop, !t.run.call.forwardHop.IsZero()
	}
	return childkey.Key{}, false
}

// InboundForwardKey returns the key of the forward call as the undo names it: the
// key in the Idempotency-Cancels header, or [Task.Cancels]. It is [InboundKey] of
// the forward run, and what [Barrier] looks up. It returns false outside a run,
// and for a request that is no undo.
func InboundForwardKey(ctx context.Context) (childkey.Key, bool) {
	if t := turnFrom(ctx); t != nil {
		return t.run.call.forward, !t.run.call.forward.IsZero()
	}
	return childkey.Key{}, false
}

// hopKey returns the hop key of a key of s. Its scope, its namespace and key were
// checked before, so Hop returns no error. The zero key would have no children.
func (s *subject) hopKey(key childkey.Key) childkey.Key {
	hop, _ := childkey.Hop(s.scope, s.namespace, key)
	return hop
}
