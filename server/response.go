package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// A Response is an answer as a value. Header may be nil.
type Response struct {
	Status int // 200 to 999
	Header http.Header
	Body   []byte
}

// envelope encodes what of r is stored: the headers that may be replayed, and
// the body.
func (g *Guard) envelope(r Response) ([]byte, error) {
	if r.Status < 200 || r.Status > 999 {
		return nil, fmt.Errorf("%w: status %d", ErrArgument, r.Status)
	}
	if len(r.Body) > 0 && !bodyAllowed(r.Status) {
		return nil, fmt.Errorf("%w: a body with status %d", ErrArgument, r.Status)
	}
	if int64(len(r.Body)) > g.cfg.MaxResponseBytes {
		return nil, fmt.Errorf("%w: a body of %d bytes, MaxResponseBytes is %d", ErrArgument, len(r.Body), g.cfg.MaxResponseBytes)
	}
	envelope, ok := encodeEnvelope(g.headers.lines(canonicalHeader(r.Header)), r.Body)
	if !ok {
		return nil, fmt.Errorf("%w: too many or malformed headers", ErrArgument)
	}
	return envelope, nil
}

// canonicalHeader is h with its names as net/http spells them.
func canonicalHeader(h http.Header) http.Header {
	canonical := make(http.Header, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			canonical.Add(name, value)
		}
	}
	return canonical
}

// responseOf decodes a stored answer.
func responseOf(status int, envelope []byte) (Response, error) {
	lines, body, err := decodeEnvelope(envelope)
	if err != nil || status < 200 || status > 999 || (len(body) > 0 && !bodyAllowed(status)) {
		return Response{}, errEnvelope
	}
	r := Response{Status: status, Header: make(http.Header, len(lines)), Body: body}
	for _, l := range lines {
		r.Header[l.name] = append(r.Header[l.name], l.value)
	}
	return r, nil
}
