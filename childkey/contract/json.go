package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ContentType is the media type of [JSON].
const ContentType = "application/json"

// ErrBody is wrapped by the errors of [Encode] and [Decode]. Their text holds
// nothing of the body; errors.As finds the cause.
var ErrBody = errors.New("contract: body")

// A bodyError is ErrBody for a cause that is not shown, since its text may quote
// the body.
type bodyError struct {
	text  string
	cause error
}

func (e *bodyError) Error() string   { return ErrBody.Error() + ": " + e.text }
func (e *bodyError) Unwrap() []error { return []error{ErrBody, e.cause} }

// Encode returns v as JSON. Equal values give equal bytes, in every process and
// after every restart (members in the order of the struct, map keys sorted),
// unless a MarshalJSON of v's own does otherwise: a callee takes other bytes under
// the same key for another request. Encode returns an error wrapping [ErrBody]
// for what JSON has no form for (NaN, a channel, a cycle).
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &bodyError{fmt.Sprintf("%T cannot be encoded", v), err}
	}
	return b, nil
}

// Decode stores the one JSON value that data is in v, a pointer. Members that v
// has no field for are ignored, so that caller and callee can be deployed one
// after the other; anything behind the value is an error, and so is no value,
// unless v is a *struct{}: nothing was expected. The error wraps [ErrBody]; with
// it v may be filled in part.
func Decode(data []byte, v any) error {
	if _, nothing := v.(*struct{}); nothing && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &bodyError{fmt.Sprintf("no JSON from offset %d on", syntax.Offset), err}
	case errors.As(err, &wrongType):
		return &bodyError{fmt.Sprintf("member %q at offset %d does not fit into %v", wrongType.Field, wrongType.Offset, wrongType.Type), err}
	default:
		return &bodyError{fmt.Sprintf("does not fit into %T", v), err}
	}
}
