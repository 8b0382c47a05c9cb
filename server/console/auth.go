package console

import (
	"context"
	"log/slog"
	"net/http"

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

// authenticated serves next to known users alone. Everything else of the console is behind it.
func (c *Console) authenticated(next http.Handler) http.Handler {
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
