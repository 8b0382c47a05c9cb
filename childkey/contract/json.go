package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ContentType is the media type of [JSON].
const ContentType = "application/json"

// ErrBody is wrapped by the errors of [Encode] and [Decode]. Their text does not show the
// body; errors.As finds the cause.
var ErrBody = errors.New("contract: body")

// A bodyError is ErrBody for a cause that is not shown, since its text may quote
// the body.
type bodyError struct {
	text  string
	cause error
}

func (e *bodyError) Error() string   { return ErrBody.Error() + ": " + e.text }
func (e *bodyError) Unwrap() []error { return []error{ErrBody, e.cause} }

// Encode returns v as JSON. Equal values give equal bytes, in every process and after every
// restart: members have the order of the struct, map keys are sorted, and a time.Time is in UTC,
// whatever its zone. So a caller that needs a zone encodes it as a value of its own. A MarshalJSON
// or MarshalText method in v must keep that, because a callee takes other bytes under the same key
// for another request. Encode returns an error wrapping [ErrBody] for a value that JSON cannot
// hold, such as NaN, a channel or a cycle.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err == nil && hasOffset(b) { // so v has no cycle
		b, err = json.Marshal(inUTC(reflect.ValueOf(v)).Interface())
	}
	if err != nil {
		return nil, &bodyError{fmt.Sprintf("%T cannot be encoded", v), err}
	}
	return b, nil
}

// Decode stores the one JSON value that data is in v, a pointer. Members without a field in
// v are ignored, so that caller and callee can be deployed one after the other. A number in
// an any is a [json.Number], which keeps every digit. Anything behind the value is an error.
// Empty data is an error too, unless v is a *struct{}. The error wraps [ErrBody]; v may then
// be partly filled.
func Decode(data []byte, v any) error {
	if _, nothing := v.(*struct{}); nothing && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err := d.Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case !json.Valid(data): // cut off, or more than one value
		return &bodyError{"not one JSON value", err}
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return &bodyError{fmt.Sprintf("member %q does not fit into %v", wrongType.Field, wrongType.Type), err}
	default:
		return &bodyError{fmt.Sprintf("does not fit into %T", v), err}
	}
}

// A MemberError is the error of [DecodeStrictly] for a member that the value has no field for. It wraps [ErrBody].
type MemberError struct{ Name string }

func (e *MemberError) Error() string { return fmt.Sprintf("%v: unknown member %q", ErrBody, e.Name) }

// Unwrap returns [ErrBody].
func (e *MemberError) Unwrap() error { return ErrBody }

// DecodeStrictly is [Decode] for data whose members must all have a field in v. The first member without one is a
// [*MemberError]; v is then filled as Decode fills it.
func DecodeStrictly(data []byte, v any) error {
	if err := Decode(data, v); err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // as Decode, which takes a number that no float64 holds
	d.DisallowUnknownFields()
	err := d.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface())
	if err == nil {
		return nil
	}
	// Decode took it, so this is the one error that is left. Package encoding/json has no type for it.
	name, _ := strconv.Unquote(strings.TrimPrefix(err.Error(), "json: unknown field "))
	return &MemberError{name}
}
