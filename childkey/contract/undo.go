package contract

// Undo is the input of an operation that undoes a forward operation whose
// input is In and whose output is Out. The forward key travels beside it, in
// the Idempotency-Cancels header.
type Undo[In, Out any] struct {
	// Input is what the forward call was given.
	Input In `json:"input"`
	// Output is what the forward call returned; nil where its outcome is
	// unknown or its answer is gone.
	Output *Out `json:"output,omitempty"`
}
