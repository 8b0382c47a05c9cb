package childkey

// The encoder without the limits, for tests of what the limits keep away.
var (
	AppendTuple = appendTuple
	SumTuple    = sumTuple
)

// MaxTupleBytes is the size of the buffers on the stack.
const MaxTupleBytes = maxTupleBytes
