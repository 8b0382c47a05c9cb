package saga

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// formOf returns how values of type T are read.
func formOf[T any]() graph.Form {
	return graph.Form{
		Decode: func(data []byte) (any, error) { return decodeLeniently[T](data) },
		Check: func(data []byte) error {
			_, err := decodeStrictly[T](data)
			return err
		},
		CheckExactly: func(data []byte) error {
			_, err := decodeExactly[T](data)
			return err
		},
	}
}

// decodeLeniently passes over members that T lacks. Its errors are ErrCorrupt.
func decodeLeniently[T any](data []byte) (v T, err error) {
	if err := contract.Decode(data, &v); err != nil {
		return v, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	return v, nil
}

// decodeStrictly refuses members that T lacks with ErrNewer. Callees may send those, and are
// decoded as contract.Decode does; but what a journal has is what this library made
// of a T, and so has just T's members.
func decodeStrictly[T any](data []byte) (v T, err error) {
	err = contract.DecodeStrictly(data, &v)
	var unknown *contract.MemberError
	switch {
	case errors.As(err, &unknown):
		return v, fmt.Errorf("%w: %T has no member %q", journal.ErrNewer, v, unknown.Name)
	case err != nil:
		return v, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	return v, nil
}

// decodeExactly refuses a result whose members are not those of T, as the result of another version of the
// definition may be. A member that the result lacks would otherwise be zero.
func decodeExactly[T any](data []byte) (T, error) {
	v, err := decodeStrictly[T](data)
	if err != nil {
		return v, err
	}
	same, err := json.Marshal(v)
	if err != nil {
		return v, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	if !isSameJSON(data, same) {
		return v, fmt.Errorf("%w: it is not what a %T is encoded as", journal.ErrCorrupt, v)
	}
	return v, nil
}

// isSameJSON reports whether a and b are one value. The order of an object's members may differ.
func isSameJSON(a, b []byte) bool {
	var values [2]any
	for i, data := range [...][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
