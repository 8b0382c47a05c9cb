package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// prepare lets Config.Prepare at the request of an attempt, and then checks that it is
// still the caller's. The hook may read the body: it gets one of its own.
func (p *passage) prepare(out *http.Request) error {
	given, u := *out, *out.URL
	out.URL, out.Header = &u, out.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	own, err := p.bodyToRead()
	if err != nil {
		return err
	}
	out.Body = own
	if err = p.client.cfg.Prepare(p.attempt.Number, out); err != nil {
		err = &prepareError{err}
	} else {
		err = p.checkPrepared(&given, out, own)
	}
	if own != nil {
		_ = own.Close() // only read
	}
	out.Body, out.GetBody, out.ContentLength = given.Body, given.GetBody, given.ContentLength
	return err
}

// bodyToRead returns the body as the hook gets it; nil if there is none.
func (p *passage) bodyToRead() (io.ReadCloser, error) {
	switch {
	case !hasBody(p.req):
		return nil, nil
	case p.once:
		return readOnce{}, nil
	}
	body, err := (&Stream{open: p.req.GetBody}).openBody()
	return &hookBody{body}, err
}

// A hookBody is the body that a hook gets, as a pointer: those can be compared.
type hookBody struct{ io.ReadCloser }

func (p *passage) checkPrepared(given, out *http.Request, own io.ReadCloser) error {
	if out.Body != nil && out.Body != own {
		defer out.Body.Close() //nolint:errcheck // only read
	}
	switch {
	case out.URL == nil || out.URL.String() != given.URL.String() || out.Method != given.Method || out.Host != given.Host:
		return fmt.Errorf("%w: method or URL", ErrPayloadChanged)
	case out.Body == nil || out.Body == own:
		return p.client.carrier.sameOwnHeaders(given.Header, out.Header)
	case p.once:
		return fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	if err := sameBody(given.Context(), p.req.GetBody, out.Body); err != nil {
		return err
	}
	return p.client.carrier.sameOwnHeaders(given.Header, out.Header)
}

// sameBody returns an error wrapping ErrPayloadChanged if got is not the body that open
// opens. A hook that has read the body puts another reader in its place.
func sameBody(ctx context.Context, open func() (io.ReadCloser, error), got io.ReadCloser) error {
	want, err := newStream(ctx, open)
	if err != nil {
		return err
	}
	size, sum, err := (&Stream{open: func() (io.ReadCloser, error) { return io.NopCloser(got), nil }}).read(ctx)
	if err == nil && (size != want.size || sum != want.sum) {
		err = fmt.Errorf("%w: body", ErrPayloadChanged)
	}
	return err
}

// A readOnce stands for a body that can be read only once, which the transport does.
type readOnce struct{}

var errReadOnce = errors.New("retry: the body can be read only once; set GetBody")

func (readOnce) Read([]byte) (int, error) { return 0, errReadOnce }
func (readOnce) Close() error             { return nil }
