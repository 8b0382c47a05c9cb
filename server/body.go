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
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	var tooLarge *http.MaxBytesError
	switch {
	case int64(len(body)) > limit, errors.As(err, &tooLarge):
		return nil, wire.BodyTooLarge
	case err != nil, r.ContentLength > int64(len(body)):
		return nil, wire.BodyIncomplete
	}
	return body, ""
}

// A body gives a handler the bytes that were hashed. It has no other method
// than these two: a handler could change the bytes through WriterTo.
type body struct {
	r      *bytes.Reader
	closed bool
}

func newBody(b []byte) io.ReadCloser {
	if len(b) == 0 {
		return http.NoBody
	}
	return &body{r: bytes.NewReader(b)}
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
