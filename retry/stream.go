package retry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// A Stream is a body that is too long to lie in memory: what a function opens
// anew for each attempt, with the length and the hash that it must have each
// time. It is immutable and safe for concurrent use if its function is; calls can
// share it. The zero Stream is invalid.
type Stream struct {
	open func() (io.ReadCloser, error)
	size int64
	sum  [sha256.Size]byte
}

// NewStream returns what open gives, which it reads once to know it again, and
// closes. It is read once more before each repetition, so that another body is
// not sent, and hashed while it is sent: no delivery that differs ends as a
// complete request ([ErrPayloadChanged]). It returns an error wrapping
// [ErrInvalid], and that of open or of what it returned.
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
	size, err = within(ctx, body, func() (int64, error) { return io.Copy(h, body) })
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, sum, &streamError{err}
	}
	h.Sum(sum[:0])
	return size, sum, nil
}

func (s *Stream) openBody() (io.ReadCloser, error) {
	if s.open == nil {
		return nil, &streamError{errZeroStream}
	}
	body, err := s.open()
	switch {
	case err != nil:
		return nil, &streamError{err}
	case body == nil:
		return nil, &streamError{errNoBody}
	}
	return body, nil
}

var (
	errNoBody     = fmt.Errorf("%w: opened without body or error", ErrInvalid)
	errZeroStream = fmt.Errorf("%w: the zero Stream; use NewStream", ErrInvalid)
)

func (s *Stream) unchanged(ctx context.Context) error {
	size, sum, err := s.read(ctx)
	if err == nil && (size != s.size || sum != s.sum) {
		err = fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return err
}

// Open opens the stream. What it returns gives its last byte only if all are what
// they were, and else an error wrapping [ErrPayloadChanged]. Close it.
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
	body io.ReadCloser
	hash hash.Hash
	left int64
	want [sha256.Size]byte
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
	switch err {
	case nil:
		return n, nil
	case io.EOF:
		return n, fmt.Errorf("%w: the body is shorter", ErrPayloadChanged)
	default:
		return n, &streamError{err}
	}
}

// last gives the last byte, if it is that of the payload.
func (v *verifiedBody) last(b []byte) (int, error) {
	var end [2]byte
	_, err := io.ReadFull(v.body, end[:])
	switch {
	case err == nil || err == io.EOF: // of more than one byte, or of none
		return 0, fmt.Errorf("%w: the body has another length", ErrPayloadChanged)
	case err != io.ErrUnexpectedEOF:
		return 0, &streamError{err}
	}
	v.hash.Write(end[:1])
	if [sha256.Size]byte(v.hash.Sum(nil)) != v.want {
		return 0, fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	v.left, b[0] = 0, end[0]
	return 1, io.EOF
}

// A streamError is the error of a stream's function, or of what it opened.
type streamError struct{ err error }

func (e *streamError) Error() string { return "retry: body: " + e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }
