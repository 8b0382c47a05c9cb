package server

import (
	"net/http"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
)

// exposed are the headers of this package that scripts of other origins may
// read, which browsers hide otherwise (Fetch standard, CORS protocol).
var exposed = strings.Join([]string{
	wire.HeaderReplayed, wire.HeaderCode, wire.HeaderShouldRetry, wire.HeaderXShouldRetry, wire.HeaderRetryAfter, wire.HeaderRetryAfterMs,
}, ", ")

// expose adds them to the answer to a cross-origin request. Whether such a
// request may be made at all is for a CORS middleware around the guard to say;
// the line adds to its own.
func expose(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		w.Header().Add("Access-Control-Expose-Headers", exposed)
	}
}
