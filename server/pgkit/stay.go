package pgkit

import "context"

type stayKey struct{}

// Staying returns ctx for writes whose caller has all the time in the world, once they
// were sent: the end of ctx then ends the wait for a connection and for a flush, and no
// more. Such a write needs no goroutine of its own, which another goroutine would have to
// leave behind.
func Staying(ctx context.Context) context.Context { return context.WithValue(ctx, stayKey{}, true) }

// stays reports whether whoever writes with ctx waits for the end of the write: because
// ctx is [Staying], or cannot end.
func stays(ctx context.Context) bool { return ctx.Done() == nil || ctx.Value(stayKey{}) != nil }
