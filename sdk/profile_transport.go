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
	if next == nil {
		next = ownTransport()
	}
	carrier := p.KeyHeader
	if carrier == "" {
		carrier = wire.HeaderKey
	}
	return &keyOnly{carrier: http.CanonicalHeaderKey(carrier), next: next}
}

// ownTransport returns a transport like net/http's default one that nobody
// else shares. A program may have put any RoundTripper in that one's place.
func ownTransport() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment}
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
