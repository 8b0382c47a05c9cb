package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A gate lets people in to the console: by a one-time token, by a password, or as a proxy in front of it says.
type gate struct {
	// names are those of this server, in lower case. A request may also name the address that it came to.
	names []string
	// trust is the header in which a proxy names the user. Empty: nobody is trusted.
	trust string
	// password is what people must know. Empty: they come by the token, and count as actor.
	password []byte
	actor    string
	cookie   string // The name of the cookie.
	secure   bool   // The server speaks TLS.
	next     http.Handler
	// renewed gets the new token when one was used: it lets the next browser in.
	renewed func(token string)
	now     func() time.Time

	mu       sync.Mutex
	token    string
	sessions map[string]session
	tries    []time.Time // The latest tries of a password.
}

// A session is a browser that was let in.
type session struct {
	user  string
	until time.Time
}

const (
	sessionFor  = 12 * time.Hour
	mostSession = 1000
)

// newSecret returns 32 random bytes as text.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

type visitorKey struct{}

// visitor returns the user whom the gate let in.
func visitor(r *http.Request) (string, bool) {
	name, ok := r.Context().Value(visitorKey{}).(string)
	return name, ok
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	switch {
	case !g.isAddressed(r):
		notice(w, http.StatusMisdirectedRequest, "This server does not have that name", "Start fanonce console with --host NAME to give it one.")
	case r.URL.Path == loginPath:
		g.login(w, r)
	case r.URL.Path == logoutPath:
		g.logout(w, r)
	default:
		user, ok := g.identify(r)
		if !ok {
			g.refuse(w)
			return
		}
		for name := range w.Header() {
			w.Header().Del(name) // the console has its own
		}
		g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, user)))
	}
}

// harden sets the headers of the gate's own pages.
func harden(h http.Header) {
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
func (g *gate) isAddressed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if slices.Contains(g.names, host) {
		return true
	}
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

// identify returns who sends the request.
func (g *gate) identify(r *http.Request) (string, bool) {
	if g.trust != "" {
		names := r.Header.Values(g.trust)
		// A second value may be the client's own, which the proxy has let pass.
		if len(names) != 1 || !isActor(names[0]) {
			return "", false
		}
		return names[0], true
	}
	cookie, err := r.Cookie(g.cookie)
	if err != nil {
		return "", false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A map's look-up takes a time that depends on the text. Such times do not help to guess 32 random bytes.
	s, ok := g.sessions[cookie.Value]
	if !ok || !g.now().Before(s.until) {
		return "", false
	}
	return s.user, true
}

// admit makes a session and gives the browser its cookie.
func (g *gate) admit(w http.ResponseWriter, user string) {
	id, now := newSecret(), g.now()
	g.mu.Lock()
	if len(g.sessions) >= mostSession {
		g.dropOldest()
	}
	g.sessions[id] = session{user, now.Add(sessionFor)}
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: id, Path: "/", MaxAge: int(sessionFor / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: g.secure,
	})
}

// dropOldest ends the session that was to end first.
func (g *gate) dropOldest() {
	oldest := ""
	for id, s := range g.sessions {
		if oldest == "" || s.until.Before(g.sessions[oldest].until) {
			oldest = id
		}
	}
	delete(g.sessions, oldest)
}
