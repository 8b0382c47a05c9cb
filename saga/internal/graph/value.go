package graph

import "slices"

// A Node is a Value without its type.
type Node struct {
	Draft *Draft // whose value it is
	Input bool   // it is made from the saga's input
	Needs []int  // indexes of the steps whose outputs it is made from
	Eval  func(*Facts) any
	// Missing reports whether there is no value if those steps are skipped. Nil means that each of Needs is needed.
	Missing func(skipped func(step int) bool) bool
}

// IsMissing reports whether the node has no value if those steps are skipped.
func (n *Node) IsMissing(skipped func(step int) bool) bool {
	if n.Missing != nil {
		return n.Missing(skipped)
	}
	return slices.ContainsFunc(n.Needs, skipped)
}

// Facts are the known input and outputs of a saga, as far as they are needed. They are decoded
// from the journal's bytes, in every process and each time anew. So every process computes the
// same values.
type Facts struct {
	Input   any
	Outputs []any // by index of the step; nil where there is none yet
	// Skipped says which steps were skipped, by index. Nil means that none can be.
	Skipped []bool
}

// A Form is how values of one type are read from a journal.
type Form struct {
	// Decode makes a value from bytes that this process wrote or has checked.
	Decode func([]byte) (any, error)
	// Check reports whether bytes of another process are a value of the type, without a member
	// that the type lacks. The other process may be of a build in which a field had another name.
	// The zero value of the renamed field would lead to a wrong input of a call.
	Check func([]byte) error
	// CheckExactly is Check for bytes of another version. They must also have every member that a value of the type is
	// encoded with: a member that they lack would be zero.
	CheckExactly func([]byte) error
}
