package store

import "context"

// A OneCommitStore is a [TxStore] that can claim a key, make the writes of its first run and settle the run, all in one
// transaction. Routes with OneCommit need it.
type OneCommitStore interface {
	TxStore
	// Plan returns an empty plan. It sends nothing, holds no connection, and does not block.
	Plan() Plan
}

// A Plan has the writes of a run that are known before anything is sent. It belongs to one run.
type Plan interface {
	// NewContext returns ctx carrying the plan for the store's own accessor, such as pgstore.Queue.
	NewContext(ctx context.Context) context.Context
	// Discard drops the plan's writes. Further writes are refused.
	Discard()
	// Commit claims an absent key, makes the plan's writes and settles the run by s, in one transaction (true). The
	// owner is the request's token, with fence 1. s.State is StateCompleted or StateReleased. If there is a record Commit
	// changes nothing and returns the record (false). The exception is the record that an earlier Commit with the
	// same token made: Commit returns true again.
	//
	// After an error nothing has changed, with the exception of [ErrFateUnknown]. The plan keeps its writes, so that
	// Commit can be repeated, and takes no further writes. The errors are those of [Store].Claim and of [Tx].Settle. A [*TxError] has Commit set,
	// also for a refused write. [ErrLeaseLost] is not among them.
	Commit(ctx context.Context, req ClaimRequest, s Settlement) (Record, bool, error)
}
