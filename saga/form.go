package saga

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
)

// A form is how values of one type are read from a journal.
type form struct {
	// decode makes a value of what this process wrote, or has checked.
	decode func([]byte) (any, error)
	// check reports whether what another process wrote is a value of the type, with
	// no member that the type has not: that process may have been built when a field
	// had another name, and whoever computes with the zero value of the new one, be it
	// the input of a call, computes something else.
	check func([]byte) error
}

func formOf[T any]() form {
	return form{
		decode: func(data []byte) (any, error) { return decodeLeniently[T](data) },
		check: func(data []byte) error {
			_, err := decodeStrictly[T](data)
			return err
		},
	}
}

// decodeLeniently passes over members that T has not. Its errors are ErrCorrupt.
func decodeLeniently[T any](data []byte) (v T, err error) {
	if err := contract.Decode(data, &v); err != nil {
		return v, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return v, nil
}

// decodeStrictly refuses members that T has not with ErrNewer. Callees may send those, and are
// decoded as contract.Decode does; but what a journal has is what this library made
// of a T, and so has just T's members.
func decodeStrictly[T any](data []byte) (T, error) {
	v, err := decodeLeniently[T](data)
	if err != nil {
		return v, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var same T
	if err := d.Decode(&same); err != nil && !errors.Is(err, io.EOF) { // of no value, where none was expected
		name := strings.TrimPrefix(err.Error(), "json: unknown field ")
		return v, fmt.Errorf("%w: %T has no member %s", ErrNewer, v, name)
	}
	return v, nil
}
