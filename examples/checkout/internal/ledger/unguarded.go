package ledger

import "context"

// Unguarded is a [Postgres] ledger whose entries are added at once: without a guard they cannot
// be part of a run.
type Unguarded struct{ *Postgres }

var _ Ledger = Unguarded{}

// Append adds e.
func (u Unguarded) Append(ctx context.Context, e Entry) error { return u.AppendAtOnce(ctx, e) }

// AppendOnComplete adds e.
func (u Unguarded) AppendOnComplete(ctx context.Context, e Entry) error { return u.Append(ctx, e) }

// UnguardedMemory is a [Memory] ledger whose entries are added at once.
type UnguardedMemory struct{ *Memory }

var _ Ledger = UnguardedMemory{}

// Append adds e.
func (u UnguardedMemory) Append(ctx context.Context, e Entry) error { return u.AppendAtOnce(ctx, e) }

// AppendOnComplete adds e.
func (u UnguardedMemory) AppendOnComplete(ctx context.Context, e Entry) error {
	return u.Append(ctx, e)
}
