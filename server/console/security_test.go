package console_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

// every is one address of each kind, also of addresses that do not exist.
var every = []string{
	"/", "/keys", "/key?in=orders&id=0", "/letters", "/sagas", "/saga", "/request", "/audit", "/help", "/id/0",
	"/asset/console.css", "/asset/console.js", "/asset/icon.svg", "/nothing", "",
}

// A stranger gets 401 and one line, whatever the address: the style sheet too.
func TestSecurity_strangers(t *testing.T) {
	t.Parallel()
	s := newFixture(t).site(t).as("")
	for _, at := range every {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions, http.MethodHead} {
			a := s.send(httptest.NewRequest(method, prefix+at, nil))
			require.Equal(t, http.StatusUnauthorized, a.Code, "%s %s", method, at)
			require.Equal(t, "You are not signed in.\n", a.Body.String())
			require.Equal(t, "Bearer", a.Header().Get("WWW-Authenticate"))
		}
	}
}

// A user whom the audit log cannot name sees nothing.
func TestSecurity_usersWithoutName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, u := range []console.User{{}, {Name: strings.Repeat("a", 129)}, {Name: "a\nb"}, {Name: "\xff"}, {Name: "ada", Role: 7}} {
		s := newSite(t, console.Config{
			Stores:       []console.Store{{Name: "orders", Reader: f.Store.Reader()}},
			Authenticate: func(*http.Request) (console.User, error) { return u, nil },
		})
		require.Equal(t, http.StatusForbidden, s.get("/").Code, "%q", u.Name)
	}
}

// Every answer has the headers, also one to a stranger.
func TestSecurity_headers(t *testing.T) {
	t.Parallel()
	s := newFixture(t).site(t)
	for _, user := range []string{"ada", "olaf", ""} {
		for _, at := range every {
			for _, a := range []answer{s.as(user).get(at), s.as(user).post(at, nil)} {
				h := a.Header()
				csp := h.Get("Content-Security-Policy")
				for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
					require.Contains(t, csp, want, at)
				}
				require.NotContains(t, csp, "unsafe")
				require.NotContains(t, csp, "data:")
				require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
				require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
				require.Equal(t, "no-store", h.Get("Cache-Control"))
				require.Equal(t, "same-origin", h.Get("Cross-Origin-Opener-Policy"))
				require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"))
			}
		}
	}
}

// No page has inline code, an inline style or an address elsewhere.
func TestSecurity_nothingInline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	for _, at := range []string{"/", "/keys", "/key?in=orders&id=" + f.ids["unknown"].String(), "/letters", "/audit", "/help", "/nothing"} {
		text := s.get(at).Body.String()
		for _, bad := range []string{" style=", "<style", " onclick", " onload", " onsubmit", "javascript:", "http://", "https://", "<script>"} {
			require.NotContains(t, text, bad, at)
		}
	}
}

// An observer sees no form that changes something, and may send none.
func TestSecurity_observers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	olaf := s.as("olaf")
	for _, at := range []string{"/", "/keys", "/letters", "/key?in=orders&id=" + f.ids["unknown"].String()} {
		a := olaf.get(at)
		require.Equal(t, http.StatusOK, a.Code)
		require.NotContains(t, a.Body.String(), `action="/ops/confirm"`, at)
	}
	require.Contains(t, s.get("/keys").Body.String(), `action="/ops/confirm"`)
	values := oneKey(f, "unknown", "forget", olaf.token())
	for _, at := range []string{"/confirm", "/do"} {
		require.Equal(t, http.StatusForbidden, olaf.post(at, values).Code)
	}
	f.requireState(t, "unknown", store.StateUnknown)
}

// oneKey are the values of a confirmed verb for one key.
func oneKey(f *fixture, name, verb, token string) url.Values {
	return url.Values{
		"token": {token}, "kind": {"key"}, "in": {"orders"}, "verb": {verb}, "which": {"one"}, "id": {f.ids[name].String() + ":1"}, "total": {"1"},
		"reason": {"the bank confirms"},
	}
}

// A form without a valid token of its user changes nothing.
func TestSecurity_tokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	other := newFixture(t).site(t) // with another secret
	good := s.token()
	other20 := byte('A') // differs from the character 20, which is within the HMAC
	if good[20] == other20 {
		other20 = 'B'
	}
	for name, token := range map[string]string{
		"none": "", "damaged": good[:20] + string(other20) + good[21:], "another user's": s.as("eve").token(), "another process's": other.token(),
		"not base64": "!", "short": "AAAA", "longer": good + "AAAA",
	} {
		a := s.post("/do", oneKey(f, "unknown", "forget", token))
		require.Equal(t, http.StatusForbidden, a.Code, name)
		require.Equal(t, http.StatusForbidden, s.post("/confirm", oneKey(f, "unknown", "forget", token)).Code, name)
		f.requireState(t, "unknown", store.StateUnknown)
	}
	// A token in the address does not count.
	values := oneKey(f, "unknown", "forget", "")
	require.Equal(t, http.StatusForbidden, s.post("/do?token="+url.QueryEscape(good), values).Code)
	require.Equal(t, http.StatusSeeOther, s.post("/do", oneKey(f, "unknown", "forget", good)).Code)
}

// A token ends after some hours.
func TestSecurity_tokensEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t).site(t)
		token := s.token()
		time.Sleep(11 * time.Hour)
		require.NotEqual(t, http.StatusForbidden, s.post("/find", url.Values{"token": {token}, "id": {"x"}}).Code)
		time.Sleep(2 * time.Hour)
		require.Equal(t, http.StatusForbidden, s.post("/find", url.Values{"token": {token}, "id": {"x"}}).Code)
	})
}

// Replicas with one secret take each other's forms.
func TestSecurity_sharedSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cfg := console.Config{
		Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader(), Guard: f.guard}}, Secret: bytes.Repeat([]byte{7}, 32),
	}
	a, b := newSite(t, cfg), newSite(t, cfg)
	require.Equal(t, http.StatusSeeOther, b.post("/do", oneKey(f, "unknown", "forget", a.token())).Code)
}

// A browser says that another site sent the form: it changes nothing, even with a token.
func TestSecurity_otherOrigins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	values := oneKey(f, "unknown", "forget", s.token())
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := httptest.NewRequest(http.MethodPost, prefix+"/do", strings.NewReader(values.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(name, value)
		require.Equal(t, http.StatusForbidden, s.send(r).Code, name)
	}
	f.requireState(t, "unknown", store.StateUnknown)
}

// A GET changes nothing.
func TestSecurity_getChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	values := oneKey(f, "unknown", "forget", s.token())
	for _, at := range []string{"/do", "/confirm", "/find"} {
		require.GreaterOrEqual(t, s.get(at+"?"+values.Encode()).Code, 400, at)
	}
	f.requireState(t, "unknown", store.StateUnknown)
}

// A form that is too large is refused.
func TestSecurity_largeForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.site(t)
	values := oneKey(f, "unknown", "forget", s.token())
	values.Set("body", strings.Repeat("a", 2<<20))
	require.Equal(t, http.StatusBadRequest, s.post("/do", values).Code)
	f.requireState(t, "unknown", store.StateUnknown)
}

// A search leaves the text of a key in no address, no title and no log.
func TestSecurity_keysStayInForms(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := newFixture(t)
	s := newSite(t, console.Config{
		Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader(), Guard: f.guard}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	a := s.post("/find", url.Values{"token": {s.token()}, "scope": {"tenant-secret"}, "key": {"order-secret"}})
	require.Equal(t, http.StatusSeeOther, a.Code)
	require.NotContains(t, a.Header().Get("Location"), "secret")
	require.NotContains(t, a.Body.String(), "secret")
	b := a.follow()
	require.Equal(t, http.StatusNotFound, b.Code)
	require.NotContains(t, b.Body.String(), "secret")
	values := oneKey(f, "unknown", "happened", s.token())
	values.Set("reason", "secret reason")
	values.Set("status", "201")
	values.Set("body", "secret body")
	require.Equal(t, http.StatusSeeOther, s.post("/do", values).Code)
	require.NotContains(t, log.String(), "secret")
	require.Contains(t, log.String(), f.ids["unknown"].String())
	require.Contains(t, log.String(), "user=ada")
}

// An error of Authenticate is logged, and not shown.
func TestSecurity_authenticateFails(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newSite(t, console.Config{
		Stores:    []console.Store{{Name: "orders", Reader: newFixture(t).Store.Reader()}},
		Challenge: `Basic realm="ops"`,
		Authenticate: func(*http.Request) (console.User, error) {
			return console.User{Name: "ada"}, errors.New("directory is down")
		},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	a := s.get("/")
	require.Equal(t, http.StatusUnauthorized, a.Code)
	require.Equal(t, `Basic realm="ops"`, a.Header().Get("WWW-Authenticate"))
	require.NotContains(t, a.Body.String(), "directory")
	require.Contains(t, log.String(), "directory is down")
}

// An Authenticate panics, waits for another request, or asks the guard. A panic passes on to net/http, and the console
// serves the next request as before.
func TestCallbacks_authenticate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, do := range map[string]func(s *site) error{
		"panics": func(*site) error { panic(http.ErrAbortHandler) },
		"is slow": func(s *site) error {
			if got := s.get("/keys").Code; got != http.StatusOK {
				return errors.New(http.StatusText(got))
			}
			return nil
		},
		"asks the guard": func(*site) error {
			_, err := f.guard.ListStuck(t.Context(), store.ListRequest{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *site
			first := true // of the requests, which come one within the other
			s = newSite(t, console.Config{
				Stores: []console.Store{{Name: "orders", Reader: f.Store.Reader(), Guard: f.guard}},
				Authenticate: func(r *http.Request) (console.User, error) {
					if !first {
						return authenticate(r)
					}
					first = false
					if name == "panics" {
						return console.User{}, do(s)
					}
					done := make(chan error, 1)
					go func() { done <- do(s) }()
					select {
					case err := <-done:
						assert.NoError(t, err)
					case <-r.Context().Done():
						assert.Fail(t, "it waits for its own request")
					}
					return authenticate(r)
				},
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			get := func() answer {
				return s.send(httptest.NewRequestWithContext(ctx, http.MethodGet, prefix+"/keys", nil))
			}
			if name == "panics" {
				require.PanicsWithValue(t, http.ErrAbortHandler, func() { get() })
			}
			code := make(chan int, 1)
			go func() { code <- get().Code }()
			select {
			case got := <-code:
				require.Equal(t, http.StatusOK, got)
			case <-ctx.Done():
				require.Fail(t, "the request does not end")
			}
			require.False(t, first)
		})
	}
}
