package sdktest

import (
	"encoding/json"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// An Option says more about a [Downstream].
type Option func(*Downstream)

// KeyHeader makes the service find keys in that header instead of Idempotency-Key.
func KeyHeader(name string) Option {
	return func(d *Downstream) {
		d.readKey = func(r *http.Request, _ []byte) string { return r.Header.Get(name) }
	}
}

// KeyMember makes the service find keys in that member of JSON bodies.
func KeyMember(name string) Option {
	return func(d *Downstream) {
		d.readKey = func(_ *http.Request, body []byte) string {
			var members map[string]json.RawMessage
			var key string
			if json.Unmarshal(body, &members) != nil || json.Unmarshal(members[name], &key) != nil {
				return ""
			}
			return key
		}
	}
}

// readIdempotencyKey reads the key without the quotes of the header's form, so that it is the text of a childkey.Key.
func readIdempotencyKey(r *http.Request, _ []byte) string {
	text := r.Header.Get(wire.HeaderKey)
	if key, err := childkey.Parse(text); err == nil {
		return key.String()
	}
	return text
}
