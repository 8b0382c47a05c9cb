package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fanonce/fanonce/server/store"
)

const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// How often passwords may be tried, by all together.
const (
	mostTries  = 10
	triesEvery = time.Minute
)

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
{{- if .Form}}
<form method="post" action="/login">
<p><label>Your name, for the audit log <input name="name" required maxlength="128" autocomplete="username"></label></p>
<p><label>Password <input name="password" type="password" required autocomplete="current-password"></label></p>
<p><button>Sign in</button></p>
</form>
{{- end}}
{{- if .Go}}
<p><a href="/">Go on to the console</a></p>
<form method="post" action="/logout"><button>Sign out</button></form>
{{- end}}
</main>
</html>
`))

type pageData struct {
	Head, Text string
	Form, Go   bool
}

func notice(w http.ResponseWriter, status int, head, text string) {
	show(w, status, pageData{Head: head, Text: text})
}

func show(w http.ResponseWriter, status int, data pageData) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pageTemplate.Execute(w, data) // a browser that is gone asks again
}

// refuse answers a request of a stranger.
func (g *gate) refuse(w http.ResponseWriter) {
	switch {
	case g.trust != "":
		notice(w, http.StatusUnauthorized, "You are not signed in", "Use the address of the proxy that signs people in.")
	case g.password != nil:
		show(w, http.StatusUnauthorized, pageData{Head: "fanonce console", Text: "Sign in to go on.", Form: true})
	default:
		notice(w, http.StatusUnauthorized, "You are not signed in", "Open the address that fanonce console has printed last. Each such address works once.")
	}
}

// login lets in who has the token or the password. It answers with a page instead of a redirect. A browser that came from
// another site would not send a new cookie of SameSite=Strict along with a redirect.
func (g *gate) login(w http.ResponseWriter, r *http.Request) {
	user, in := "", false
	switch {
	case g.trust != "":
		g.refuse(w)
		return
	case r.Method == http.MethodGet && g.password == nil:
		user, in = g.actor, g.takeToken(r.URL.Query().Get("token"))
	case r.Method == http.MethodGet:
	case r.Method == http.MethodPost && g.password != nil:
		if !g.mayTry() {
			w.Header().Set("Retry-After", "60")
			notice(w, http.StatusTooManyRequests, "Too many tries", "Wait a minute.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
		user = strings.TrimSpace(r.PostFormValue("name"))
		in = isActor(user) && g.isPassword(r.PostFormValue("password"))
	default:
		notice(w, http.StatusMethodNotAllowed, "Not here", "Open this address in a browser.")
		return
	}
	if !in && r.Method == http.MethodPost {
		show(w, http.StatusUnauthorized, pageData{Head: "fanonce console", Text: "The name or the password is not right.", Form: true})
		return
	}
	if !in {
		g.refuse(w)
		return
	}
	g.admit(w, user)
	show(w, http.StatusOK, pageData{Head: "Signed in", Text: "You are " + user + ".", Go: true})
}

// logout ends the session. A form of another site cannot: its request brings no cookie.
func (g *gate) logout(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(g.cookie)
	if r.Method != http.MethodPost || err != nil {
		g.refuse(w)
		return
	}
	g.mu.Lock()
	delete(g.sessions, cookie.Value)
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: g.secure})
	notice(w, http.StatusOK, "Signed out", "This browser is out.")
}

// takeToken uses the token up. The next one goes to the terminal.
func (g *gate) takeToken(token string) bool {
	g.mu.Lock()
	ok := same(token, g.token)
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

// mayTry counts a try of the password. Without a limit a short password could be found.
func (g *gate) mayTry() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.tries = slices.DeleteFunc(g.tries, func(t time.Time) bool { return now.Sub(t) >= triesEvery })
	if len(g.tries) >= mostTries {
		return false
	}
	g.tries = append(g.tries, now)
	return true
}

func (g *gate) isPassword(text string) bool { return same(text, string(g.password)) }

// same compares in a time that depends neither on the texts nor on their lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isActor reports whether the audit log can have the name.
func isActor(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= store.MaxActorBytes && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
