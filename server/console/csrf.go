package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"
)

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
