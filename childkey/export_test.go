package childkey

// The encoder without the limits, for tests of what the limits keep away.
var (
	AppendTuple = appendTuple
	SumTuple    = sumTuple
)

// MaxTupleBytes is the size of the buffers on the stack.
const MaxTupleBytes = maxTupleBytes

// The constructors with the random source as an argument.
var (
	NewV4From = newV4
	NewV7From = newV7
)

// AppendTo is how an Encoding appends the text of a key.
func (e Encoding) AppendTo(dst []byte, sum Hash) ([]byte, error) { return e.appendTo(dst, sum) }

// NewFamily returns a family that no context carries.
var NewFamily = newFamily
