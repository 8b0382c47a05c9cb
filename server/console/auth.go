package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"log/slog"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A Role says what a [User] may do.
type Role uint8

const (
	// Observer may see everything that the console shows. It is the zero Role.
	Observer Role = iota
	// Operator may also change keys and sagas.
	Operator
)

// String returns the name of the role in lower case.
func (r Role) String() string {
	switch r {
	case Observer:
		return "observer"
	case Operator:
		return "operator"
	default:
		return "unknown role"
	}
}

// A User is a person who uses the console.
type User struct {
	// Name is the actor in the audit log: one line of 1 to 128 bytes.
	Name string
	Role Role
}

type userKey struct{}

// userOf returns the user of a request that was authenticated.
func userOf(r *http.Request) User {
	u, _ := r.Context().Value(userKey{}).(User)
	return u
}

// requireUser serves next to known users alone. Everything else of the console is behind it.
func (c *Console) requireUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := c.cfg.Authenticate(r)
		if err != nil {
			c.log(r, slog.LevelInfo, "a request was not authenticated", slog.Any("error", err))
			w.Header().Set("WWW-Authenticate", c.cfg.Challenge)
			plain(w, http.StatusUnauthorized, "You are not signed in.")
			return
		}
		if user.Name == "" || !oneLine(user.Name, store.MaxActorBytes) || user.Role > Operator {
			c.log(r, slog.LevelError, "Authenticate returned a user that the audit log cannot name", slog.Int("name_bytes", len(user.Name)))
			plain(w, http.StatusForbidden, "Your account has no name or role that the audit log can use.")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// operatorOnly serves next to operators alone.
func (c *Console) operatorOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if userOf(r).Role != Operator {
			c.fail(w, r, http.StatusForbidden, "Only operators may do this. You are an observer.")
			return
		}
		next(w, r)
	}
}

// plain answers with one line of text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a browser that is gone asks again
}

// tokenLife is how long a form can be sent. A form that is open for longer is refused, and costs a reload.
const tokenLife = 12 * time.Hour

// maxFormBytes bounds the body of a form: a page of selected rows and a list of refusals fit.
const maxFormBytes = 1 << 20

// A token is the time of its end, and the HMAC of that time and the user. So it serves one user,
// whatever cookies an attacker can set.
func (c *Console) token(u User, until time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.Unix())) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(c.sign(b, u))
}

// sign appends the HMAC to end, which is 8 bytes.
func (c *Console) sign(end []byte, u User) []byte {
	mac := hmac.New(sha256.New, c.cfg.Secret)
	_, _ = mac.Write([]byte("console form\x00")) // a hash returns no error
	_, _ = mac.Write(end)
	_, _ = mac.Write([]byte(u.Name))
	return mac.Sum(end[:len(end):len(end)])
}

// validToken reports whether the console made the token for that user, and not too long ago.
func (c *Console) validToken(text string, u User, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+sha256.Size {
		return false
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(b)), 0) //nolint:gosec // compared below, after the HMAC
	return hmac.Equal(b, c.sign(b[:8], u)) && now.Before(until)
}

// form serves next with a form that the user sent from a page of this console.
func (c *Console) form(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, http.StatusBadRequest, "The form cannot be read, or is larger than 1 MiB. Nothing was changed.")
			return
		}
		if !c.validToken(r.PostForm.Get("token"), userOf(r), time.Now()) {
			c.fail(w, r, http.StatusForbidden, "The form is too old, or it is not yours. Nothing was changed. Go back, reload the page and try again.")
			return
		}
		next(w, r)
	}
}

// policy is the content security policy. The page is one origin: it needs no inline code and no data: address.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers that every answer has, also a refusal.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
		next.ServeHTTP(w, r)
	})
}
