package server

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/fanonce/fanonce/server/internal/engine"
)

// A body gives a handler the bytes that were hashed. It implements only Read and Close: with WriterTo a handler could
// change the bytes.
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

// withBody returns a copy of r for one attempt of the handler.
func withBody(r *http.Request, b []byte) *http.Request {
	r.Body = newBody(b)
	r.ContentLength = int64(len(b))
	r.TransferEncoding = nil
	return r
}

// A budget is a number of bytes that the requests of all scopes share. The zero budget
// is empty.
type budget struct {
	most  int64 // for all scopes together
	least int64 // that one scope may take, if they are free

	mu      sync.Mutex
	used    int64
	byScope map[string]int64 // a scope that uses none is not in it
}

// take reports whether scope may use n bytes more, and notes them.
func (b *budget) take(scope string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.most-b.used || n > engine.ShareOf(scope, b.most, b.least)-b.byScope[scope] {
		return false
	}
	if b.byScope == nil {
		b.byScope = make(map[string]int64)
	}
	b.used += n
	b.byScope[scope] += n
	return true
}

// give returns n bytes that scope took.
func (b *budget) give(scope string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.byScope[scope] -= n; b.byScope[scope] == 0 {
		delete(b.byScope, scope)
	}
}
