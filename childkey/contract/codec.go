package contract

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
)

// A Codec turns an operation's input and output into bytes and back. It must be safe for
// concurrent use. Encode must return equal bytes for equal values, in every process and
// after every restart. A callee takes other bytes under the same key for another request.
type Codec interface {
	// ContentType is the media type of the encoded bytes, such as "application/cbor".
	ContentType() string
	Encode(v any) ([]byte, error)
	// Decode stores what data is in v, a pointer.
	Decode(data []byte, v any) error
}

// JSON is the default codec of an operation: [Encode] and [Decode].
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) ContentType() string             { return ContentType }
func (jsonCodec) Encode(v any) ([]byte, error)    { return Encode(v) }
func (jsonCodec) Decode(data []byte, v any) error { return Decode(data, v) }

// A strict codec is a user's codec. Its errors wrap [ErrBody], and their text does not show
// the body.
type strict struct{ Codec }

func (s strict) Encode(v any) ([]byte, error) {
	b, err := s.Codec.Encode(v)
	if err != nil {
		return nil, &bodyError{fmt.Sprintf("%T cannot be encoded", v), err}
	}
	return b, nil
}

func (s strict) Decode(data []byte, v any) error {
	if _, nothing := v.(*struct{}); nothing && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := s.Codec.Decode(data, v); err != nil {
		return &bodyError{fmt.Sprintf("does not fit into %T", v), err}
	}
	return nil
}

// WithCodec returns the operation with a codec instead of [JSON], for both caller and
// callee. A nil codec is an error, and so is one whose ContentType is not a media type. See
// [Operation.Err].
func (op Operation[In, Out]) WithCodec(c Codec) Operation[In, Out] {
	if op.err != nil || op.method == "" {
		return op
	}
	if c == nil {
		return op.refuse(errors.New("WithCodec: the codec is nil"))
	}
	if kind, _, err := mime.ParseMediaType(c.ContentType()); err != nil || !strings.Contains(kind, "/") {
		return op.refuse(fmt.Errorf("codec: content type %q is no media type", c.ContentType()))
	}
	if c != JSON {
		c = strict{c}
	}
	op.codec = c
	return op
}

// Codec returns what [Operation.WithCodec] set, or [JSON]. Its errors wrap [ErrBody].
func (op Operation[In, Out]) Codec() Codec {
	if op.codec == nil {
		return JSON
	}
	return op.codec
}
