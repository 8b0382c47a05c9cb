package childkey

import "context"

type contextKey struct{}

// NewContext returns ctx carrying parent as the parent key of the calls made
// with it, in a new [Family]. A guarded handler's ctx carries a parent key
// already: the hop key of the request's key. The zero Key hides a parent that
// ctx carries: then there is none.
func NewContext(ctx context.Context, parent Key) context.Context {
	var f *Family
	if !parent.IsZero() {
		f = &Family{parent: parent}
	}
	return context.WithValue(ctx, contextKey{}, f)
}

// FromContext returns the parent key that ctx carries; false if there is none.
// In a guarded run it is the hop key ([Hop]), which no other caller's request
// has. The key as it arrived is server.InboundKey; the doc of package server has a table.
func FromContext(ctx context.Context) (Key, bool) {
	f := FamilyFromContext(ctx)
	return f.Parent(), f != nil
}

// FamilyFromContext returns the family that [NewContext] put into ctx, or nil.
func FamilyFromContext(ctx context.Context) *Family {
	f, _ := ctx.Value(contextKey{}).(*Family)
	return f
}
