package retry

import (
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many redirects one attempt follows.
const maxRedirects = 5

// checkRedirect is the http.Client.CheckRedirect of loop: what it declines is
// the attempt's answer. A redirect is followed only if the call asks for it, and
// the same request goes to the same origin: the key must reach nobody else, and
// another method or body is another call.
func checkRedirect(req *http.Request, via []*http.Request) error {
	x := exchangeOf(req.Context())
	if !x.follow {
		return http.ErrUseLastResponse // its caller follows them
	}
	first := via[0]
	if len(via) > maxRedirects || req.Method != first.Method || !sameOrigin(req.URL, first.URL) {
		return http.ErrUseLastResponse
	}
	if !keepsRequest(req.Response.StatusCode, req.Method) {
		return http.ErrUseLastResponse
	}
	if _, honoured := x.frozen.carrier.marker(req.Response.Header); honoured {
		return http.ErrUseLastResponse // a handler ran and answered so: elsewhere the key is another request's
	}
	return nil
}

// keepsRequest reports whether a redirect of this status repeats the request as
// it is (RFC 9110 section 15.4).
func keepsRequest(status int, method string) bool {
	if status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect {
		return true
	}
	return method == http.MethodGet || method == http.MethodHead
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
