package childkey

import (
	"io"

	"github.com/google/uuid"
)

// The encoder without the limits, for tests of what the limits keep away.
var (
	AppendTuple = appendTuple
	SumTuple    = sumTuple
)

// MaxTupleBytes is the size of the buffers on the stack.
const MaxTupleBytes = maxTupleBytes

// The constructors with the random source as an argument.
var (
	NewV4From = func(random io.Reader) (Key, error) { return newUUID(random, uuid.NewRandomFromReader) }
	NewV7From = func(random io.Reader) (Key, error) { return newUUID(random, uuid.NewV7FromReader) }
)

// AppendTo is how an Encoding appends the text of a key.
func (e Encoding) AppendTo(dst []byte, sum Hash) ([]byte, error) { return e.appendTo(dst, sum) }

// NewFamily returns a family that no context carries.
func NewFamily(parent Key) *Family { return &Family{parent: parent} }
