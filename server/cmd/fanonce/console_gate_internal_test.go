package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A door is a server with a gate before a handler that says hello.
type door struct {
	*httptest.Server
	g      *gate
	clock  time.Time
	tokens []string // that came after the first one
}

func openDoor(t *testing.T) *door {
	t.Helper()
	d := &door{clock: time.Now()}
	d.g = &gate{
		actor: "<b>ann", cookie: "c", token: "first", sessions: map[string]time.Time{}, now: func() time.Time { return d.clock },
		renewed: func(token string) { d.tokens = append(d.tokens, token) },
		next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			require.Empty(t, w.Header())
			_, _ = io.WriteString(w, "hello")
		}),
	}
	d.Server = httptest.NewServer(d.g)
	t.Cleanup(d.Close)
	return d
}

// A browser keeps cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, Timeout: time.Minute}
}

// visit gets a page, and returns its status and its text.
func (d *door) visit(t *testing.T, c *http.Client, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL+path, nil)
	require.NoError(t, err)
	if change != nil {
		change(req)
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestGate_token(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	ann, eve := browser(t), browser(t)
	for _, path := range []string{"/", "/keys", "/asset/console.css", "/login", "/login?token=", "/login?token=second"} {
		status, body := d.visit(t, eve, path, nil)
		require.Equal(t, http.StatusUnauthorized, status, path)
		require.NotContains(t, body, "hello", path)
	}
	status, body := d.visit(t, ann, "/login?token=first", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "You are &lt;b&gt;ann.")
	status, body = d.visit(t, ann, "/keys", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello", body)

	// The token was for one browser. The next one is on the terminal, and lets another in.
	status, _ = d.visit(t, eve, "/login?token=first", nil)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Len(t, d.tokens, 1)
	status, _ = d.visit(t, browser(t), "/login?token="+d.tokens[0], nil)
	require.Equal(t, http.StatusOK, status)
}

func TestGate_cookie(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	resp, err := http.Get(d.URL + "/login?token=first") //nolint:noctx // a test
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	cookie := resp.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Len(t, cookie.Value, 43)
	for _, want := range []string{"Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "Cache-Control"} {
		require.NotEmpty(t, resp.Header.Get(want))
	}

	with := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "c", Value: cookie.Value}) }
	status, _ := d.visit(t, http.DefaultClient, "/", with)
	require.Equal(t, http.StatusOK, status)
	d.clock = d.clock.Add(sessionFor)
	status, _ = d.visit(t, http.DefaultClient, "/", with)
	require.Equal(t, http.StatusUnauthorized, status, "a session has no end")
}

// A name of another site that leads to this server is refused, also with a valid cookie.
func TestGate_host(t *testing.T) {
	t.Parallel()
	d := openDoor(t)
	d.g.sessions["id"] = d.clock.Add(time.Minute)
	for host, want := range map[string]int{
		"":                     http.StatusOK, // the address
		"localhost":            http.StatusOK,
		"LOCALHOST:8080":       http.StatusOK, // a forwarded port
		"localhost.":           http.StatusOK,
		"ops.example.com":      http.StatusMisdirectedRequest,
		"127.0.0.1":            http.StatusOK,
		"127.0.0.2":            http.StatusMisdirectedRequest,
		"10.0.0.1:80":          http.StatusMisdirectedRequest,
		"evil.example":         http.StatusMisdirectedRequest,
		"localhost.evil.com":   http.StatusMisdirectedRequest,
		"evil.com:7070":        http.StatusMisdirectedRequest,
		"ops.example.com.evil": http.StatusMisdirectedRequest,
	} {
		status, body := d.visit(t, http.DefaultClient, "/", func(r *http.Request) {
			r.Host = host
			r.AddCookie(&http.Cookie{Name: "c", Value: "id"})
		})
		require.Equal(t, want, status, host)
		require.Equal(t, want == http.StatusOK, body == "hello", host)
	}
}

func TestConsoleFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		f    consoleFlags
		want string // in the error; "": none
	}{
		{"default", consoleFlags{listen: "localhost:7070"}, ""},
		{"IPv6", consoleFlags{listen: "[::1]:0"}, ""},
		{"no port", consoleFlags{listen: "localhost"}, "is not HOST:PORT"},
		{"every address", consoleFlags{listen: ":7070"}, "can be reached from other machines"},
		{"0.0.0.0", consoleFlags{listen: "0.0.0.0:7070"}, "can be reached"},
		{"a name", consoleFlags{listen: "localhost.example.com:7070"}, "can be reached"},
		{"a private address", consoleFlags{listen: "10.1.2.3:7070"}, "can be reached"},
		{"nobody", consoleFlags{listen: "localhost:0", actor: " "}, "--actor has 1 bytes"},
		{"an actor of two lines", consoleFlags{listen: "localhost:0", actor: "a\nb"}, "--actor has 3 bytes"},
		{"a long actor", consoleFlags{listen: "localhost:0", actor: strings.Repeat("a", 129)}, "--actor has 129 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.f.actor == "" {
				tt.f.actor = "ann"
			}
			err := tt.f.check()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
