package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
)

// The errors that a guarded handler's http.ResponseWriter returns.
var (
	// ErrNotStorable: the handler hijacked the connection or flushed where the
	// route refuses it, or wrote an invalid status. The answer is dropped, and
	// the caller gets 500 not-storable.
	ErrNotStorable = errors.New("server: the answer cannot be stored")
	// ErrResponseTooLarge: the answer is larger than [Config.MaxResponseBytes]
	// on a route with [StreamRefuse], or more than 16 times as large on a
	// [Transactional] route. The answer is dropped, and the caller gets
	// 500 not-storable.
	ErrResponseTooLarge = errors.New("server: the answer is too large")
	// ErrHandlerReturned: the handler wrote after it had returned.
	ErrHandlerReturned = errors.New("server: write after the handler returned: wait for its goroutines")
)

// errHijack also matches http.ErrNotSupported: handlers know that error from HTTP/2.
var errHijack = fmt.Errorf("%w: hijack: %w", ErrNotStorable, http.ErrNotSupported)

// A recorder buffers a handler's answer: no byte leaves before the answer is
// recorded. It does not implement Unwrap: http.ResponseController reaches only the methods
// of the recorder itself.
//
// The lock is for handlers whose goroutines outlive them.
type recorder struct {
	w      http.ResponseWriter
	route  *Route
	stored int64 // Config.MaxResponseBytes
	served int64 // Config.maxServedBytes

	mu      sync.Mutex
	header  http.Header // belongs to the handler, which may change it at any time
	sent    http.Header // as it was at WriteHeader
	status  int         // 0: no header yet
	body    []byte
	err     error // if not nil: the answer is dropped, and every write returns this error
	dropped bool  // the body outgrew served: it and all further writes are dropped
	passing bool  // streaming: written bytes leave at once
	traces  bool  // the writer of the answer is looked for, whatever the status
	timed   bool  // it is an http.TimeoutHandler
	failed  bool  // a 5xx came too late: the answer had begun as a success
	over    bool
}

func newRecorder(w http.ResponseWriter, route *Route, cfg *Config) *recorder {
	header := w.Header().Clone()
	delete(header, "Content-Encoding") // see replace: the handler's bytes do not have it yet
	return &recorder{w: w, route: route, stored: cfg.MaxResponseBytes, served: cfg.maxServedBytes(), header: header}
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header {
	if r.header == nil { // w has none, and Clone keeps that
		r.header = make(http.Header)
	}
	return r.header
}

// WriteHeader implements http.ResponseWriter. Informational answers are
// dropped. If there are several final answers, the first counts.
func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *recorder) writeHeader(status int) {
	switch {
	case r.over || r.err != nil:
	case r.status != 0:
		r.failed = r.failed || r.status < http.StatusBadRequest && status >= http.StatusInternalServerError
	case status < 100 || status > 999 || status == http.StatusSwitchingProtocols:
		r.err = ErrNotStorable
	case status < 200:
	default:
		r.status = status
		r.sent = r.header.Clone()
		r.timed = (r.traces || status == http.StatusServiceUnavailable) && isCalledByTimeoutHandler()
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0, ErrHandlerReturned
	}
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	switch {
	case r.err != nil:
		return 0, r.err
	case !bodyAllowed(r.status):
		return 0, http.ErrBodyNotAllowed
	case r.passing:
		return r.w.Write(b)
	}
	return r.buffer(b)
}

// buffer keeps b, unless the body becomes too large.
//
// A body that outgrows served is dropped without an error on Keyed and Opaque
// routes. A handler such as httputil.ReverseProxy panics when a Write fails, and
// then a finished effect would count as a failed run.
func (r *recorder) buffer(b []byte) (int, error) {
	n := int64(len(r.body)) + int64(len(b))
	switch {
	case r.dropped:
	case n > r.stored && r.route.Stream == StreamRefuse, n > r.served && r.route.Effect == Transactional:
		r.err, r.body = ErrResponseTooLarge, nil
		return 0, r.err
	case n > r.served:
		r.dropped, r.body = true, nil
	default:
		if n > int64(cap(r.body)) && n > r.served/2 { // append would reserve more memory than can be used
			r.body = append(make([]byte, 0, r.served), r.body...)
		}
		r.body = append(r.body, b...)
	}
	return len(b), nil
}

// WriteString implements io.StringWriter.
func (r *recorder) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// Flush implements http.Flusher. If the recorder buffers, Flush only fixes the
// header, as every Flush does.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError is the method that http.ResponseController calls for Flush.
func (r *recorder) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return ErrHandlerReturned
	case r.err != nil:
		return r.err
	case r.route.Stream == StreamRefuse:
		r.err = ErrNotStorable
		return r.err
	}
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	if r.route.Stream == StreamBuffer || r.dropped {
		return nil
	}
	if err := r.pass(); err != nil {
		return err
	}
	return http.NewResponseController(r.w).Flush()
}

// pass makes the recorder a pass-through.
func (r *recorder) pass() error {
	if r.passing {
		return nil
	}
	// With the announced length the client could treat a stream as complete
	// although its outcome could not be recorded.
	r.sent.Del("Content-Length")
	r.sent.Del(wire.HeaderForward) // see tell
	set := newHeaderSetter(r.sent)
	set.mark(false)
	if r.status >= http.StatusMultipleChoices {
		set.adviseRetry(neverStored(r.status) || r.status >= http.StatusInternalServerError && r.route.Effect != Opaque)
	}
	replace(r.w.Header(), r.sent)
	r.w.WriteHeader(r.status)
	r.passing = true
	_, err := r.w.Write(r.body)
	r.body = nil
	return err
}

// Hijack implements http.Hijacker.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return nil, nil, ErrHandlerReturned
	case r.route.Stream != StreamTombstone:
		r.err = errHijack
		return nil, nil, r.err
	}
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		r.passing, r.err = true, http.ErrHijacked
		r.status = max(r.status, http.StatusOK)
	}
	return conn, rw, err
}

// SetReadDeadline is for http.ResponseController.
func (r *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetWriteDeadline(t)
}

// finish ends the recording and returns the answer to store. fate is the result of an undo's Barrier, 0 if there is
// none; redact may be nil.
func (r *recorder) finish(headers headerPolicy, fate Fate, redact func(Response) (Response, error)) engine.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.writeHeader(http.StatusOK)
	}
	r.over = true
	if r.err != nil && !errors.Is(r.err, http.ErrHijacked) {
		return engine.Result{Unfit: true}
	}
	res := resultOf(r.status)
	res.Dropped = r.dropped
	if !r.passing {
		r.tell(fate)
	}
	if r.passing || r.dropped || int64(len(r.body)) > r.stored || hasTrailer(r.header) {
		return res
	}
	r.sniff()
	if header, body, ok := r.redactAnswer(redact); ok {
		if text := r.sent.Get(wire.HeaderForward); text != "" { // redact cannot change it
			header.Set(wire.HeaderForward, text)
		}
		if envelope, ok := record.EncodeEnvelope(headers.lines(header), body); ok {
			res.Answer.Envelope = envelope
		}
	}
	return res
}

// tell adds the fate of the forward call to an answer of success. The handler's own value of that header is dropped.
func (r *recorder) tell(fate Fate) {
	r.sent.Del(wire.HeaderForward)
	if text := fateHeader(fate); text != "" && r.status/100 == 2 {
		r.sent.Set(wire.HeaderForward, text)
	}
}

// redactAnswer returns the part of the answer that is stored, or false if nothing is. The
// redactAnswer answer has the same limit of size.
func (r *recorder) redactAnswer(redact func(Response) (Response, error)) (http.Header, []byte, bool) {
	if redact == nil {
		return r.sent, r.body, true
	}
	stored, err := redact(Response{Status: r.status, Header: r.sent.Clone(), Body: slices.Clone(r.body)})
	if err != nil || int64(len(stored.Body)) > r.stored || (len(stored.Body) > 0 && !bodyAllowed(r.status)) {
		return nil, nil, false
	}
	return canonicalHeader(stored.Header), stored.Body, true
}

// sniff does what net/http does on the first write, so that a replay has the
// same Content-Type as the first answer.
func (r *recorder) sniff() {
	_, set := r.sent["Content-Type"]
	if !set && len(r.body) > 0 && r.sent.Get("Content-Encoding") == "" {
		r.sent.Set("Content-Type", http.DetectContentType(r.body))
	}
}

// hasTrailer reports whether the handler announced or set a trailer.
func hasTrailer(h http.Header) bool {
	if len(h["Trailer"]) > 0 {
		return true
	}
	for name := range h {
		if len(name) > len(http.TrailerPrefix) && name[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			return true
		}
	}
	return false
}

// bodyAllowed reports whether an answer with this status may have a body (RFC
// 9110 section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
