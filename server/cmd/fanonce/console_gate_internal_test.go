package main

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A door is a server with a gate before a handler that says who has come.
type door struct {
	*httptest.Server
	g      *gate
	clock  time.Time
	tokens []string // that came after the first one
}

func openDoor(t *testing.T, change func(*gate)) *door {
	t.Helper()
	d := &door{clock: time.Now()}
	d.g = &gate{
		actor: "ann", cookie: "c", token: "first", sessions: map[string]session{}, now: func() time.Time { return d.clock },
		renewed: func(token string) { d.tokens = append(d.tokens, token) },
		next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, ok := visitor(r)
			require.True(t, ok)
			require.Empty(t, w.Header())
			_, _ = io.WriteString(w, "hello "+name)
		}),
	}
	change(d.g)
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
	return d.send(t, c, http.MethodGet, path, nil, change)
}

func (d *door) send(t *testing.T, c *http.Client, method, path string, form url.Values, change func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
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
	d := openDoor(t, func(*gate) {})
	ann, eve := browser(t), browser(t)
	for _, path := range []string{"/", "/keys", "/asset/console.css", "/login", "/login?token=", "/login?token=second", "/logout"} {
		status, body := d.visit(t, eve, path, nil)
		require.Equal(t, http.StatusUnauthorized, status, path)
		require.NotContains(t, body, "hello", path)
	}
	status, body := d.visit(t, ann, "/login?token=first", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "You are ann.")
	status, body = d.visit(t, ann, "/keys", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello ann", body)

	// The token was for one browser. The next one is on the terminal, and lets another in.
	status, _ = d.visit(t, eve, "/login?token=first", nil)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Len(t, d.tokens, 1)
	status, _ = d.visit(t, browser(t), "/login?token="+d.tokens[0], nil)
	require.Equal(t, http.StatusOK, status)

	status, _ = d.send(t, ann, http.MethodPost, "/logout", nil, nil)
	require.Equal(t, http.StatusOK, status)
	status, _ = d.visit(t, ann, "/", nil)
	require.Equal(t, http.StatusUnauthorized, status, "the session outlives the way out")
}

func TestGate_cookie(t *testing.T) {
	t.Parallel()
	d := openDoor(t, func(g *gate) { g.secure = true })
	resp, err := http.Get(d.URL + "/login?token=first") //nolint:noctx // a test
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	cookie := resp.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.True(t, cookie.Secure)
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

func TestGate_password(t *testing.T) {
	t.Parallel()
	d := openDoor(t, func(g *gate) { g.password = []byte("correct horse") })
	ann, eve := browser(t), browser(t)
	status, body := d.visit(t, ann, "/keys", nil)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "password")
	status, _ = d.visit(t, eve, "/login?token=first", nil)
	require.Equal(t, http.StatusUnauthorized, status, "the token lets in beside the password")
	status, body = d.send(t, ann, http.MethodPost, "/login", url.Values{"name": {"<b>ann"}, "password": {"correct horse"}}, nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "You are &lt;b&gt;ann.")
	_, body = d.visit(t, ann, "/", nil)
	require.Equal(t, "hello <b>ann", body)

	for _, form := range []url.Values{
		{"name": {"eve"}, "password": {"wrong"}}, {"name": {"eve"}}, {"name": {" "}, "password": {"correct horse"}},
		{"name": {"e\nve"}, "password": {"correct horse"}}, {"name": {strings.Repeat("e", 129)}, "password": {"correct horse"}},
	} {
		status, _ = d.send(t, eve, http.MethodPost, "/login", form, nil)
		require.Equal(t, http.StatusUnauthorized, status, form)
	}
	for range mostTries {
		status, _ = d.send(t, eve, http.MethodPost, "/login", url.Values{"name": {"eve"}, "password": {"guess"}}, nil)
	}
	require.Equal(t, http.StatusTooManyRequests, status)
	d.clock = d.clock.Add(triesEvery)
	status, _ = d.send(t, eve, http.MethodPost, "/login", url.Values{"name": {"eve"}, "password": {"correct horse"}}, nil)
	require.Equal(t, http.StatusOK, status)
}

func TestGate_trustedHeader(t *testing.T) {
	t.Parallel()
	d := openDoor(t, func(g *gate) { g.trust = "X-User" })
	for _, tt := range []struct {
		name   string
		values []string
		want   int
	}{
		{"none", nil, http.StatusUnauthorized},
		{"one", []string{"ann@example.com"}, http.StatusOK},
		{"empty", []string{""}, http.StatusUnauthorized},
		{"two", []string{"ann", "eve"}, http.StatusUnauthorized},
		{"too long", []string{strings.Repeat("a", 129)}, http.StatusUnauthorized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, _ := d.visit(t, http.DefaultClient, "/", func(r *http.Request) { r.Header["X-User"] = tt.values })
			require.Equal(t, tt.want, status)
		})
	}
}

// A name of another site that leads to this server is refused, also with a valid cookie.
func TestGate_host(t *testing.T) {
	t.Parallel()
	d := openDoor(t, func(g *gate) { g.names = []string{"ops.example.com"} })
	d.g.sessions["id"] = session{"ann", d.clock.Add(time.Minute)}
	for host, want := range map[string]int{
		"":                     http.StatusOK, // the address
		"localhost":            http.StatusOK,
		"LOCALHOST:8080":       http.StatusOK, // a forwarded port
		"localhost.":           http.StatusOK,
		"ops.example.com":      http.StatusOK,
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
		require.Equal(t, want == http.StatusOK, body == "hello ann", host)
	}
}

func TestGate_bounded(t *testing.T) {
	t.Parallel()
	g := &gate{cookie: "c", sessions: map[string]session{}, now: time.Now}
	for range mostSession + 10 {
		g.admit(httptest.NewRecorder(), "ann")
	}
	require.Len(t, g.sessions, mostSession)
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
		{"with a password", consoleFlags{listen: ":7070", passwordFile: "p"}, ""},
		{"behind a proxy", consoleFlags{listen: ":7070", trustHeader: "X-Forwarded-User"}, ""},
		{"both", consoleFlags{listen: ":7070", trustHeader: "X-User", passwordFile: "p"}, "not both"},
		{"no header", consoleFlags{listen: ":7070", trustHeader: "X User"}, "is not the name of a header"},
		{"any client's header", consoleFlags{listen: ":7070", trustHeader: "user-agent"}, "any client sends"},
		{"half of TLS", consoleFlags{listen: "localhost:0", certificate: "c"}, "go together"},
		{"a wrong host", consoleFlags{listen: "localhost:0", hosts: []string{"*.example.com"}}, "is not a name"},
		{"nobody", consoleFlags{listen: "localhost:0", actor: " "}, "--actor has 1 bytes"},
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
	require.Equal(t, []string{"ops.example.com", "box"}, (&consoleFlags{listen: "Box:1", hosts: []string{"Ops.example.com."}}).names())
	require.Empty(t, (&consoleFlags{listen: net.JoinHostPort("::1", "1")}).names())
}
