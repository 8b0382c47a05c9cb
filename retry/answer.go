package retry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// maxSnippet is how much of an answer that is not 2xx is read: enough for
// people and for the problem in it, and for its connection to be used again.
const maxSnippet = 64 << 10

// An answer is a complete answer.
type answer struct {
	status  int
	header  http.Header
	raw     *http.Response // with its body spent
	body    []byte
	problem *wire.Problem // nil: the body is none
	code    wire.Code     // "": the answer is not the idempotency layer's
	tooLong bool          // a 2xx whose body is longer than the cap, and is not kept
}

func (a *answer) usable() bool { return a.status/100 == 2 && !a.tooLong }

// replayed reports whether the callee says that an earlier attempt had run.
func (a *answer) replayed() bool {
	replayed, _ := wire.ParseFlag(a.header[wire.HeaderReplayed]) // Values would spell the name anew
	return replayed
}

// err returns the answer as an error; nil if it is usable.
func (a *answer) err() error {
	switch {
	case a.usable():
		return nil
	case a.tooLong:
		return fmt.Errorf("%w: status %d", ErrResponseTooLarge, a.status)
	default:
		return &answerError{status: a.status, code: a.code}
	}
}

// read reads resp to its end, up to the cap of its kind, and closes it.
// An answer that breaks off is no answer: its error wraps ErrTruncated.
func (a *answer) read(resp *http.Response, maxBytes int64) error {
	a.status, a.header, a.raw = resp.StatusCode, resp.Header, resp
	if resp.Body == nil {
		return nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to where we want it
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // its body is the connection, and has no end
	}
	success := a.status/100 == 2
	if !success {
		maxBytes = maxSnippet
	}
	body, whole, err := readBody(resp.Body, resp.ContentLength, maxBytes)
	if err != nil {
		return fmt.Errorf("%w: status %d: %w", ErrTruncated, a.status, err)
	}
	switch {
	case success && !whole:
		a.tooLong = true
	case success:
		a.body = body
	default:
		a.body = body
		if p, ok := wire.ParseProblem(resp.Header.Get("Content-Type"), body); ok {
			a.problem, a.code = &p, p.Code
		}
	}
	return nil
}

// readBody reads at most maxBytes; whole says that this was all. It trusts an
// announced length only as far as it would read anyway.
func readBody(body io.Reader, announced, maxBytes int64) (b []byte, whole bool, err error) {
	const trusted = 64 << 10
	room := int64(bytes.MinRead)
	if 0 <= announced && announced <= min(trusted, maxBytes) {
		room = announced + 1 // so that the end is seen, too
	}
	b = make([]byte, 0, room)
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > maxBytes:
			return b[:maxBytes], false, nil
		case err == io.EOF:
			return b, true, nil
		case err != nil:
			return nil, false, err
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}
