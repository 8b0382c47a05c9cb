package server

import (
	"bytes"
	"io"
	"net/http"
)

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
