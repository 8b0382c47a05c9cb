package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/server/internal/engine"
)

// A misplaced remembers which signs of middleware on the wrong side of the guard were logged for a route.
type misplaced struct {
	encoded, cors, timeout, failed sync.Once

	traced atomic.Bool // an answer's writer was looked for
}

// warnMisplaced logs, once for each route, a sign of middleware that belongs outside of the guard. Such a middleware
// compresses, adds the headers of CORS, recovers, or answers while the handler goes on. outer has the headers of the layers
// that are outside, and rec is finished.
func (h *guarded) warnMisplaced(ctx context.Context, route string, outer http.Header, rec *recorder) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	warn := func(header, text string) {
		l := logLine{Line: engine.Line{Level: slog.LevelWarn, Message: text, Route: route}}
		if header != "" {
			l.Attrs = []slog.Attr{slog.String("header", header)}
		}
		h.guard.log.write(ctx, l)
	}
	if rec.timed {
		h.misplaced.timeout.Do(func() {
			warn("", "http.TimeoutHandler is inside the guard: after its 503 the handler goes on, and a retry runs beside it; "+
				"set Route.HandlerTimeout, or let http.TimeoutHandler be outside of the guard")
		})
	}
	if rec.failed {
		h.misplaced.failed.Do(func() {
			warn("", "a 5xx came after the answer had begun as a success, which is stored as it is: "+
				"let a middleware that recovers be outside of the guard, and write nothing before the work is done")
		})
	}
	for name := range rec.sent {
		switch {
		case name == "Content-Encoding":
			h.misplaced.encoded.Do(func() {
				warn(name, "the guard stores a compressed answer: let the middleware that compresses be outside of the guard")
			})
		case len(outer[name]) > 0:
		case strings.HasPrefix(name, "Access-Control-"):
			h.misplaced.cors.Do(func() {
				warn(name, "a replay will lack the headers of CORS: let the middleware that sets them be outside of the guard")
			})
		}
	}
}

// isCalledByTimeoutHandler reports whether an http.TimeoutHandler writes the answer that the caller is about to record.
// Only the stack shows that: the handler behind it gets another writer. An http.TimeoutHandler outside of
// the guard is in another goroutine.
func isCalledByTimeoutHandler() bool {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "net/http.(*timeoutHandler).ServeHTTP" {
			return true
		}
		if !more {
			return false
		}
	}
}

// decodeFor returns the body of a stored answer as the client of r can read it: without gzip, if it did not ask for that.
// Other encodings stay, because the standard library cannot read them, and so does a body that would be longer than what
// the guard serves. header is that of the answer. No Vary goes with it: no cache keeps a replay.
func (h *guarded) decodeFor(r *http.Request, header http.Header, body []byte) []byte {
	encoding := header["Content-Encoding"]
	if len(encoding) != 1 || !strings.EqualFold(encoding[0], "gzip") || acceptsGzip(r.Header) {
		return body
	}
	plain, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	most := h.guard.cfg.maxServedBytes()
	decoded, err := io.ReadAll(io.LimitReader(plain, most+1))
	if err != nil || int64(len(decoded)) > most {
		return body
	}
	delete(header, "Content-Encoding")
	return decoded
}

// acceptsGzip reports whether a client asked for gzip (RFC 9110 section 12.5.3). One that says nothing did not.
func acceptsGzip(header http.Header) bool {
	for _, line := range header["Accept-Encoding"] {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, weighted := strings.Cut(strings.ReplaceAll(strings.ToLower(coding), " ", ""), ";")
			refused := weighted && strings.Trim(strings.TrimPrefix(weight, "q="), "0.") == "" // q=0, or q=0.000
			if (name == "gzip" || name == "x-gzip" || name == "*") && !refused {
				return true
			}
		}
	}
	return false
}
