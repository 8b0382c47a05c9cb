package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
)

// maxCopied is the length of the longest body that is copied although it could
// be opened anew.
const maxCopied = 1 << 20

// takeBody takes over the body of req, and closes it. A long body becomes a Stream only if
// streams says so. The error says why ctx has ended, if
// ctx ends before the body does. Any other error wraps ErrInvalid.
func (c *Call) takeBody(ctx context.Context, req *http.Request, streams bool) error {
	if req.Body == nil {
		return nil
	}
	var err error
	if streams && req.GetBody != nil && req.ContentLength > maxCopied {
		c.Stream, err = newStream(ctx, req.GetBody)
	} else {
		c.Body, err = readWhole(ctx, req.Body, req.ContentLength)
	}
	if closeErr := req.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && req.ContentLength > 0 && c.size() != req.ContentLength {
		err = fmt.Errorf("%w: body of %d bytes, announced as %d", ErrInvalid, c.size(), req.ContentLength)
	}
	switch {
	case err == nil || errors.Is(err, ErrInvalid):
		return err
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return endOf(ctx)
	}
	return fmt.Errorf("%w: body: %w", ErrInvalid, err)
}

// readWhole reads body to its end, until ctx ends.
func readWhole(ctx context.Context, body io.ReadCloser, announced int64) (b []byte, err error) {
	if readsInPlace(ctx, body) {
		b, _, err = readBody(body, announced, math.MaxInt64)
		return b, err
	}
	return within(ctx, body, func() ([]byte, error) { // which takes memory
		b, _, err := readBody(body, announced, math.MaxInt64)
		return b, err
	})
}

// size is the length of the body.
func (c *Call) size() int64 {
	if c.Stream != nil {
		return c.Stream.Size()
	}
	return int64(len(c.Body))
}

// within returns what read returns, which reads body. If ctx ends first, within closes
// body and returns the cause of that end at once. The goroutine of read then ends when
// the Read that it is in returns: the Close of pipes, files and connections ends theirs.
func within[T any](ctx context.Context, body io.ReadCloser, read func() (T, error)) (T, error) {
	if readsInPlace(ctx, body) {
		return read()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		_ = body.Close()
		var none T
		return none, context.Cause(ctx)
	}
}

// readsInPlace reports whether ctx need not be watched while body is read.
func readsInPlace(ctx context.Context, body io.Reader) bool {
	return ctx.Done() == nil || inMemory(body)
}

// inMemory reports whether no Read of r blocks: it is one of the readers that
// http.NewRequest knows, or io.NopCloser of one.
func inMemory(r io.Reader) bool {
	switch r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	if r == http.NoBody {
		return true
	}
	if t := reflect.TypeOf(r); t == nopCloser || t == nopCloserWriterTo {
		inner, _ := reflect.ValueOf(r).Field(0).Interface().(io.Reader)
		return inner != nil && inMemory(inner)
	}
	return false
}

// The types that io.NopCloser returns, for readers without and with WriteTo.
var (
	nopCloser         = reflect.TypeOf(io.NopCloser(nil))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))
)

// closeBody closes the body of a request that no transport gets.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
