package retry

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
)

// A payload is the body of a call, the same for every attempt: bytes, or what a
// factory gives anew each time. The zero payload is empty.
type payload struct {
	bytes []byte
	mark  uint64 // of bytes

	open func() (io.ReadCloser, error) // nil: bytes is all there is
	size int64
	sum  [sha256.Size]byte // of what open gives
}

// marks need not resist anybody: they tell that a transport wrote into bytes
// that it was to read.
var marks = maphash.MakeSeed()

func bytesPayload(body []byte) payload {
	return payload{bytes: body, size: int64(len(body)), mark: maphash.Bytes(marks, body)}
}

// streamPayload reads what open gives once, to know it again.
func streamPayload(open func() (io.ReadCloser, error)) (payload, error) {
	p := payload{open: open}
	var err error
	p.size, p.sum, err = p.read()
	return p, err
}

func (p *payload) read() (size int64, sum [sha256.Size]byte, err error) {
	body, err := p.openBody()
	if err != nil {
		return 0, sum, err
	}
	h := sha256.New()
	size, err = io.Copy(h, body)
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, sum, &bodyError{err}
	}
	h.Sum(sum[:0])
	return size, sum, nil
}

func (p *payload) openBody() (io.ReadCloser, error) {
	body, err := p.open()
	switch {
	case err != nil:
		return nil, &bodyError{err}
	case body == nil:
		return nil, &bodyError{errNoBody}
	}
	return body, nil
}

var errNoBody = errors.New("GetBody returned neither body nor error")

// unchanged returns an error wrapping ErrPayloadChanged if another attempt would
// send something else than the first.
func (p *payload) unchanged() error {
	if p.open == nil {
		if maphash.Bytes(marks, p.bytes) != p.mark {
			return fmt.Errorf("%w: body", ErrPayloadChanged)
		}
		return nil
	}
	size, sum, err := p.read()
	if err == nil && (size != p.size || sum != p.sum) {
		err = fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return err
}

// reader returns the payload for one delivery.
func (p *payload) reader() (io.ReadCloser, error) {
	if p.open == nil {
		return io.NopCloser(bytes.NewReader(p.bytes)), nil // a type that net/http knows: it then writes headers and body at once
	}
	body, err := p.openBody()
	if err != nil {
		return nil, err
	}
	return &verifiedBody{body: body, hash: sha256.New(), left: p.size, want: p.sum}, nil
}

// A verifiedBody gives the last byte only when it knows that all of them are the
// payload's: a callee never sees the end of another one.
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
		return n, &bodyError{err}
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
		return 0, &bodyError{err}
	}
	v.hash.Write(end[:1])
	if [sha256.Size]byte(v.hash.Sum(nil)) != v.want {
		return 0, fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	v.left, b[0] = 0, end[0]
	return 1, io.EOF
}

// A bodyError is the error of a Call's GetBody, or of what it returned.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "retry: body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }
