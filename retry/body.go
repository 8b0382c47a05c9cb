package retry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
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
	return readUntilDone(ctx, body, func() ([]byte, error) { // which takes memory
		b, _, err := readBody(body, announced, math.MaxInt64)
		return b, err
	})
}

// size is the length of the body.
func (c *Call) size() int64 { return payload{bytes: c.Body, stream: c.Stream}.size() }

// readUntilDone returns what read returns, which reads body. If ctx ends first, it closes
// body and returns the cause of that end at once. The goroutine of read then ends when
// the Read that it is in returns: the Close of pipes, files and connections ends theirs.
func readUntilDone[T any](ctx context.Context, body io.ReadCloser, read func() (T, error)) (T, error) {
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
	return ctx.Done() == nil || isInMemory(body)
}

// isInMemory reports whether no Read of r blocks: it is one of the readers that
// http.NewRequest knows, or io.NopCloser of one.
func isInMemory(r io.Reader) bool {
	switch r.(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	if r == http.NoBody {
		return true
	}
	if t := reflect.TypeOf(r); t == nopCloser || t == nopCloserWriterTo {
		inner, _ := reflect.ValueOf(r).Field(0).Interface().(io.Reader)
		return inner != nil && isInMemory(inner)
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

// A payload is the body of a call, the same for every attempt. The zero payload
// is empty.
type payload struct {
	bytes  []byte
	mark   uint64  // the hash of bytes
	stream *Stream // replaces bytes; nil: bytes
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

// checkUnchanged returns an error wrapping ErrPayloadChanged if another attempt would
// send something else than the first. A stream is read until ctx ends.
func (p payload) checkUnchanged(ctx context.Context) error {
	if p.stream != nil {
		return p.stream.checkUnchanged(ctx)
	}
	if maphash.Bytes(marks, p.bytes) != p.mark {
		return fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return nil
}

// reader returns the payload for one delivery.
func (p payload) reader() (io.ReadCloser, error) {
	if p.stream != nil {
		return p.stream.Open()
	}
	return io.NopCloser(bytes.NewReader(p.bytes)), nil // a type that net/http knows: it then writes headers and body at once
}

// A Stream is a body that is too long for memory. A function opens it for each attempt. It
// must have the same length and the same hash each time. It is immutable and safe for
// concurrent use if its function is; calls can share it. The zero Stream is invalid.
type Stream struct {
	open func() (io.ReadCloser, error)
	size int64
	sum  [sha256.Size]byte
}

// NewStream returns a Stream that open opens. It reads the body once, for its length and
// its hash, and closes it. The body is read again before each repetition, so that a changed
// body is not sent. It is hashed while it is sent: a delivery that differs never ends as a
// complete request ([ErrPayloadChanged]). The error wraps [ErrInvalid] and the error of
// open or of the body.
func NewStream(open func() (io.ReadCloser, error)) (*Stream, error) {
	if open == nil {
		return nil, fmt.Errorf("%w: stream: no function to open it", ErrInvalid)
	}
	s, err := newStream(context.Background(), open)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

// newStream is NewStream until ctx ends.
func newStream(ctx context.Context, open func() (io.ReadCloser, error)) (*Stream, error) {
	s := &Stream{open: open}
	var err error
	s.size, s.sum, err = s.read(ctx)
	return s, err
}

// Size returns the length in bytes.
func (s *Stream) Size() int64 { return s.size }

// Sum returns the SHA-256.
func (s *Stream) Sum() [sha256.Size]byte { return s.sum }

// read reads the stream to its end. It returns early if ctx ends.
func (s *Stream) read(ctx context.Context) (size int64, sum [sha256.Size]byte, err error) {
	body, err := s.openBody()
	if err != nil {
		return 0, sum, err
	}
	h := sha256.New()
	size, err = readUntilDone(ctx, body, func() (int64, error) { return io.Copy(h, body) })
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, sum, &streamError{err: err}
	}
	h.Sum(sum[:0])
	return size, sum, nil
}

func (s *Stream) openBody() (io.ReadCloser, error) {
	if s.open == nil {
		return nil, &streamError{err: errZeroStream}
	}
	body, err := s.open()
	switch {
	case err != nil:
		return nil, &streamError{err: err}
	case body == nil:
		return nil, &streamError{err: errNoBody}
	}
	return body, nil
}

var (
	errNoBody     = fmt.Errorf("%w: opened without body or error", ErrInvalid)
	errZeroStream = fmt.Errorf("%w: the zero Stream; use NewStream", ErrInvalid)
)

func (s *Stream) checkUnchanged(ctx context.Context) error {
	size, sum, err := s.read(ctx)
	if err == nil && (size != s.size || sum != s.sum) {
		err = fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return err
}

// Open opens the stream. The body that it returns gives its last byte only if all bytes are
// the same as before. Otherwise its Read returns an error wrapping [ErrPayloadChanged].
// Close the body.
func (s *Stream) Open() (io.ReadCloser, error) {
	body, err := s.openBody()
	if err != nil {
		return nil, err
	}
	return &verifiedBody{body: body, hash: sha256.New(), left: s.size, want: s.sum}, nil
}

// A verifiedBody gives the last byte only when it knows that all of them are the
// stream's: a callee never sees the end of another one.
type verifiedBody struct {
	body  io.ReadCloser
	hash  hash.Hash
	left  int64
	want  [sha256.Size]byte
	given bool
}

func (v *verifiedBody) Close() error { return v.body.Close() }

func (v *verifiedBody) Read(b []byte) (int, error) {
	switch {
	case v.left == 0:
		return 0, io.EOF
	case len(b) == 0:
		return 0, nil
	case v.left == 1:
		return v.last(b)
	}
	n, err := v.body.Read(b[:min(int64(len(b)), v.left-1)])
	v.hash.Write(b[:n]) // never fails
	v.left -= int64(n)
	v.given = v.given || n > 0
	switch err {
	case nil:
		return n, nil
	case io.EOF:
		err = fmt.Errorf("%w: the body is shorter", ErrPayloadChanged)
	}
	return n, &streamError{err, v.given}
}

// last gives the last byte, if it is that of the payload.
func (v *verifiedBody) last(b []byte) (int, error) {
	var end [2]byte
	_, err := io.ReadFull(v.body, end[:])
	switch {
	case err == nil || err == io.EOF: // of more than one byte, or of none
		return 0, &streamError{fmt.Errorf("%w: the body has another length", ErrPayloadChanged), v.given}
	case err != io.ErrUnexpectedEOF:
		return 0, &streamError{err, v.given}
	}
	v.hash.Write(end[:1])
	if [sha256.Size]byte(v.hash.Sum(nil)) != v.want {
		return 0, &streamError{fmt.Errorf("%w: body", ErrPayloadChanged), v.given}
	}
	v.left, b[0] = 0, end[0]
	return 1, io.EOF
}

// A streamError is the error of a stream's function, or of the body that it opened.
type streamError struct {
	err   error
	given bool // bytes of the body were read before, so they may have been sent
}

func (e *streamError) Error() string { return "retry: body: " + e.err.Error() }

func (e *streamError) Unwrap() error { return e.err }
