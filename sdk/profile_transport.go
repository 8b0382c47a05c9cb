package sdk

import (
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// transport returns what makes the attempts for a callee with this profile:
// next, or around it what keeps this library's headers at home.
func (p Profile) transport(next http.RoundTripper) http.RoundTripper {
	if !p.KeyOnly {
		return next
	}
	carrier := p.KeyHeader
	if carrier == "" {
		carrier = wire.HeaderKey
	}
	return &keyOnly{carrier: http.CanonicalHeaderKey(carrier), next: next}
}

// keyOnly drops the headers that only this library's callees understand. It
// has no CloseIdleConnections, so that nobody empties the pool of others.
type keyOnly struct {
	carrier string
	next    http.RoundTripper
}

// RoundTrip makes one attempt.
func (t *keyOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for _, name := range ours {
		if name != t.carrier {
			req.Header.Del(name)
		}
	}
	return t.next.RoundTrip(req)
}
