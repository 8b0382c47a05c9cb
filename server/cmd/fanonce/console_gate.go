package main

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fanonce/fanonce/server/store"
)

// A gate lets people in to the console by a token, which each lets one browser in.
type gate struct {
	actor  string // what everybody who comes in counts as
	cookie string // The name of the cookie.
	next   http.Handler
	// renewed gets the new token when one was used: it lets the next browser in.
	renewed func(token string)
	now     func() time.Time

	mu       sync.Mutex
	token    string
	sessions map[string]time.Time // the end of each session, by the value of its cookie
}

const (
	loginPath  = "/login"
	sessionFor = 12 * time.Hour
)

// newSecret returns 32 random bytes as text.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setPageHeaders(w.Header())
	switch {
	case !isAddressed(r):
		show(w, http.StatusMisdirectedRequest, pageData{
			Head: "This server does not have that name",
			Text: "Open it as localhost, or by the address that it listens on. A proxy in front of it must send Host: localhost.",
		})
	case r.URL.Path == loginPath:
		g.login(w, r)
	case !g.isAdmitted(r):
		refuse(w)
	default:
		for name := range w.Header() {
			w.Header().Del(name) // the console has its own
		}
		g.next.ServeHTTP(w, r)
	}
}

// setPageHeaders sets the headers of the gate's own pages.
func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// isAddressed reports whether the request names this server. A page of another site can make its own name lead to
// 127.0.0.1 (DNS rebinding): the browser then takes this server for that site, but still sends the other name. A browser
// cannot be made to send an address that a name leads to, so the address of the connection is always right.
func isAddressed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	if local.IP.IsLoopback() && host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.Equal(local.IP)
}

// isAdmitted reports whether the request has the cookie of a session.
func (g *gate) isAdmitted(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookie)
	if err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A map's look-up takes a time that depends on the text. Such times do not help to guess 32 random bytes.
	end, ok := g.sessions[cookie.Value]
	return ok && g.now().Before(end)
}

// admit makes a session and gives the browser its cookie. The cookie cannot be Secure, because only http leads to this
// server.
func (g *gate) admit(w http.ResponseWriter) {
	id := newSecret()
	g.mu.Lock()
	g.sessions[id] = g.now().Add(sessionFor)
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // see above
		Name: g.cookie, Value: id, Path: "/", MaxAge: int(sessionFor / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{{- if .Go}}
<meta http-equiv="refresh" content="0; url=/">
{{- end}}
<title>fanonce console</title>
<main>
<h1>{{.Head}}</h1>
<p>{{.Text}}</p>
{{- if .Go}}
<p><a href="/">Go on to the console</a></p>
{{- end}}
</main>
</html>
`))

type pageData struct {
	Head, Text string
	Go         bool // the page leads to the console
}

func show(w http.ResponseWriter, status int, data pageData) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pageTemplate.Execute(w, data) // a browser that is gone asks again
}

// refuse answers a request of a stranger.
func refuse(w http.ResponseWriter) {
	show(w, http.StatusUnauthorized, pageData{
		Head: "You are not signed in", Text: "Open the address that fanonce console has printed last. Each such address works once.",
	})
}

// login lets in who has the token. It answers with a page instead of a redirect: a browser that came from another site
// would not send a new cookie of SameSite=Strict along with a redirect.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !g.takeToken(r.URL.Query().Get("token")) {
		refuse(w)
		return
	}
	g.admit(w)
	show(w, http.StatusOK, pageData{Head: "Signed in", Text: "You are " + g.actor + ".", Go: true})
}

// takeToken uses the token up. The next one goes to the terminal.
func (g *gate) takeToken(token string) bool {
	g.mu.Lock()
	ok := subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
	if ok {
		g.token = newSecret()
	}
	next := g.token
	g.mu.Unlock()
	if ok {
		g.renewed(next)
	}
	return ok
}

// checkActor refuses a name that the audit log cannot have.
func checkActor(name string) error {
	if strings.TrimSpace(name) == "" || len(name) > store.MaxActorBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("--actor has %d bytes, must be one line of 1 to %d: it goes to the audit log; give --actor, or set USER", len(name), store.MaxActorBytes)
	}
	return nil
}
