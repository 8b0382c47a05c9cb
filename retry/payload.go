package retry

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
)

// A payload is the body of a call, the same for every attempt. The zero payload
// is empty.
type payload struct {
	bytes  []byte
	mark   uint64  // of bytes
	stream *Stream // in place of bytes; nil: those
}

// marks need not resist anybody: they tell that a transport wrote into bytes
// that it was to read.
var marks = maphash.MakeSeed()

func bytesPayload(body []byte) payload {
	return payload{bytes: body, mark: maphash.Bytes(marks, body)}
}

func (p payload) size() int64 {
	if p.stream != nil {
		return p.stream.size
	}
	return int64(len(p.bytes))
}

// unchanged returns an error wrapping ErrPayloadChanged if another attempt would
// send something else than the first. A stream is read until ctx ends.
func (p payload) unchanged(ctx context.Context) error {
	if p.stream != nil {
		return p.stream.unchanged(ctx)
	}
	if maphash.Bytes(marks, p.bytes) != p.mark {
		return fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return nil
}

// reader returns the payload for one delivery; of bytes it is r.
func (p payload) reader(r *bytes.Reader) (io.ReadCloser, error) {
	if p.stream != nil {
		return p.stream.Open()
	}
	r.Reset(p.bytes)
	return io.NopCloser(r), nil // a type that net/http knows: it then writes headers and body at once
}
