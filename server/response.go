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
	return g.envelopeOf(r.Status, g.headers.lines(canonicalHeader(r.Header)), r.Body)
}

func (g *Guard) envelopeOf(status int, lines []headerLine, body []byte) ([]byte, error) {
	if status < 200 || status > 999 {
		return nil, fmt.Errorf("%w: status %d", ErrArgument, status)
	}
	if len(body) > 0 && !bodyAllowed(status) {
		return nil, fmt.Errorf("%w: a body with status %d", ErrArgument, status)
	}
	if int64(len(body)) > g.cfg.MaxResponseBytes {
		return nil, fmt.Errorf("%w: a body of %d bytes, MaxResponseBytes is %d", ErrArgument, len(body), g.cfg.MaxResponseBytes)
	}
	envelope, ok := encodeEnvelope(lines, body)
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
	lines, body, err := storedAnswer(status, envelope)
	if err != nil {
		return Response{}, err
	}
	r := Response{Status: status, Header: make(http.Header, len(lines)), Body: body}
	for _, l := range lines {
		r.Header[l.name] = append(r.Header[l.name], l.value)
	}
	return r, nil
}

// storedAnswer returns the parts of a stored answer. The body shares envelope's memory.
func storedAnswer(status int, envelope []byte) (lines []headerLine, body []byte, err error) {
	lines, body, err = decodeEnvelope(envelope)
	if err != nil || status < 200 || status > 999 || (len(body) > 0 && !bodyAllowed(status)) {
		return nil, nil, errEnvelope
	}
	return lines, body, nil
}
