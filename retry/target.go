package retry

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// targets are URLs that were parsed before: an operation's is nearly always the same,
// and parsing it was a tenth of a call over a stub. A text has one place, by its hash,
// and gets it when it comes there twice in a row, so that URLs which differ from call
// to call cost next to nothing and are not kept. The zero targets are empty, and safe
// for concurrent use.
type targets [64]struct {
	last  atomic.Uint64 // the hash of the text that came last
	known atomic.Pointer[target]
}

// A target is read by many calls, and never changed.
type target struct {
	text string
	url  url.URL // as it is sent: checked, and without a fragment
}

// find returns the URL that the call goes to, which nobody may change. Its error
// wraps ErrInvalid.
func (t *targets) find(call *Call) (*url.URL, error) {
	if call.url != nil {
		own := *call.url
		return &own, prepareURL(&own, call.host)
	}
	hash := maphash.String(marks, call.URL)
	place := &t[hash%uint64(len(t))]
	if known := place.known.Load(); known != nil && known.text == call.URL {
		return &known.url, nil
	}
	if place.last.Swap(hash) != hash {
		return parseURL(call.URL)
	}
	text := strings.Clone(call.URL) // which may lie in memory that its owner uses again
	u, err := parseURL(text)
	if err == nil {
		place.known.Store(&target{text: text, url: *u})
	}
	return u, err
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: URL: not parsable", ErrInvalid)
	}
	return u, prepareURL(u, "")
}

// prepareURL checks that u can be sent to, with host in place of its own unless
// that is empty, and makes it what is sent. Its error never quotes the URL, which
// may hold a secret.
func prepareURL(u *url.URL, host string) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: URL: scheme %q is neither http nor https", ErrInvalid, u.Scheme)
	case u.Hostname() == "":
		return fmt.Errorf("%w: URL: no host", ErrInvalid)
	}
	if given := u.Port(); given != "" {
		if _, err := strconv.ParseUint(given, 10, 16); err != nil {
			return fmt.Errorf("%w: URL: port %s", ErrInvalid, given)
		}
	}
	if host = cmp.Or(host, u.Host); !validHost(host) {
		return fmt.Errorf("%w: host %q", ErrInvalid, host)
	}
	u.Fragment, u.RawFragment = "", ""
	return nil
}

// validHost reports whether net/http sends s as the host: what RFC 3986 section
// 3.2.2 allows, and international names, which it converts.
func validHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x80 && !alphanumeric(c) && strings.IndexByte("!$%&'()*+,-.:;=[]_~", c) < 0 {
			return false
		}
	}
	return true
}
