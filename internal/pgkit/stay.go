package pgkit

import "context"

type stayKey struct{}

// Staying returns ctx for writes whose caller waits for the end of the write once it was sent. The
// end of ctx then ends only the wait for a connection and for a flush. Such a write needs no
// goroutine of its own: only a caller that may leave needs one to leave behind.
func Staying(ctx context.Context) context.Context { return context.WithValue(ctx, stayKey{}, true) }

// stays reports whether the caller of a write with ctx waits for its end, because ctx is [Staying]
// or cannot end.
func stays(ctx context.Context) bool { return ctx.Done() == nil || ctx.Value(stayKey{}) != nil }
