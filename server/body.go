package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// readBody reads the whole body of r, at most limit bytes; the code says what
// is wrong with it, if anything.
func readBody(r *http.Request, limit int64) ([]byte, wire.Code) {
	if r.ContentLength > limit {
		return nil, wire.BodyTooLarge // before the client is asked for it
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, ""
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), maxTrustedLength)) + bytes.MinRead)
	_, err := body.ReadFrom(io.LimitReader(r.Body, limit+1))
	switch n := int64(body.Len()); {
	case n > limit, err != nil && errors.As(err, new(*http.MaxBytesError)):
		return nil, wire.BodyTooLarge
	case err != nil, r.ContentLength > n:
		return nil, wire.BodyIncomplete
	}
	return body.Bytes(), ""
}

// maxTrustedLength bounds the memory that a client gets for announcing a body
// that it has not sent yet.
const maxTrustedLength = 64 << 10

// A body gives a handler the bytes that were hashed. It has no other method
// than these two: a handler could change the bytes through WriterTo.
type body struct {
	r      bytes.Reader
	closed bool
}

func newBody(b []byte) io.ReadCloser {
	if len(b) == 0 {
		return http.NoBody
	}
	read := new(body)
	read.r.Reset(b)
	return read
}

func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.r.Read(p)
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// withBody returns a copy of r for one turn of the handler.
func withBody(r *http.Request, b []byte) *http.Request {
	r.Body = newBody(b)
	r.ContentLength = int64(len(b))
	r.TransferEncoding = nil
	return r
}
