package retry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// A prepareError is the error of [Config.Prepare].
type prepareError struct{ err error }

func (e *prepareError) Error() string { return "retry: prepare: " + e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }

// prepare lets Config.Prepare at the request and then checks that it is still
// the frozen call's, and begins the body anew.
func (x *exchange) prepare(out *http.Request) error {
	given := *out
	u := *out.URL
	given.URL, given.Header = &u, out.Header.Clone()
	err := x.client.cfg.Prepare(x.attempt.Number, out)
	if err != nil {
		err = &prepareError{err}
	} else {
		err = x.checkPrepared(&given, out)
	}
	if given.Body != nil {
		_ = given.Body.Close() // only read
	}
	if err != nil {
		return err
	}
	return x.setBody(out, new(bytes.Reader))
}

func (x *exchange) checkPrepared(given, out *http.Request) error {
	if out.URL == nil || out.URL.String() != given.URL.String() || out.Method != given.Method || out.Host != given.Host {
		return fmt.Errorf("%w: method or URL", ErrPayloadChanged)
	}
	if err := x.checkOwnHeaders(given.Header, out.Header); err != nil {
		return err
	}
	return x.checkBody(given.Body, out.Body)
}

// checkOwnHeaders checks the headers that the hook has left.
func (x *exchange) checkOwnHeaders(given, got http.Header) error {
	for name, values := range got {
		if err := checkHeader(name, values); err != nil {
			return &prepareError{err}
		}
	}
	return x.frozen.carrier.sameOwnHeaders(given, got)
}

// sameOwnHeaders compares the headers that belong to the client, in whatever
// case they are spelled: a second spelling would be a second line on the wire.
func (c *carrier) sameOwnHeaders(given, got http.Header) error {
	count := 0
	for name, values := range got {
		if !c.owns(name) {
			continue
		}
		if !slices.Equal(values, given[name]) {
			return fmt.Errorf("%w: header %s", ErrPayloadChanged, http.CanonicalHeaderKey(name))
		}
		count++
	}
	for name := range given {
		if c.owns(name) {
			count--
		}
	}
	if count != 0 {
		return fmt.Errorf("%w: a header of the client is gone", ErrPayloadChanged)
	}
	return nil
}

// checkBody compares what a reader would send with the frozen bytes. The hook
// may have read it, to sign it; then nothing is left, which is no change. One
// that is not in memory may only be the same reader.
func (x *exchange) checkBody(given, body io.ReadCloser) error {
	if body == nil || body == given && x.frozen.body.stream != nil {
		return nil
	}
	defer body.Close() //nolint:errcheck // only read
	if x.frozen.body.stream != nil {
		return fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	frozen := x.frozen.body.bytes
	got, err := io.ReadAll(io.LimitReader(body, int64(len(frozen))+1))
	if err != nil {
		return &prepareError{err}
	}
	if len(got) > 0 && !bytes.HasSuffix(frozen, got) {
		return fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return nil
}
