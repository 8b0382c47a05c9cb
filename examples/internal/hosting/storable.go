package hosting

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/fanonce/fanonce/server"
)

// MaxBodyBytes is the length of the longest body: its texts become rows, and the input
// of a saga, which is no longer than 256 KiB.
const MaxBodyBytes = 128 << 10

// Storable refuses a request whose body Postgres could not keep: one that is not UTF-8, that
// spells a NUL, or that is too long. It is a [server.Route]'s Fingerprint: the guard asks it
// before anything is stored. A body that is not JSON is left to the handler, whose answer is
// stored.
func Storable(_ *http.Request, body []byte) ([]byte, error) {
	switch {
	case len(body) > MaxBodyBytes:
		return nil, unstorable(fmt.Sprintf("The body must not be longer than %d bytes.", MaxBodyBytes))
	case !utf8.Valid(body):
		return nil, unstorable("The body must be UTF-8.")
	case bytes.Contains(body, []byte(`\u0000`)) && spellsNUL(body):
		return nil, unstorable(`The body must not have a NUL (\u0000) in it.`)
	}
	return body, nil
}

func unstorable(detail string) error {
	return &server.StatusError{Status: http.StatusBadRequest, Detail: detail, Err: ErrBadInput}
}

// spellsNUL reports whether a text in the body has a NUL: `\\u0000` has none.
func spellsNUL(body []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if text, ok := token.(string); ok && strings.ContainsRune(text, 0) {
			return true
		}
	}
}
