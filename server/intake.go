package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
)

// drainTimeout bounds how long net/http reads the rest of a refused request's
// body. net/http reads it before it answers, to keep the connection.
const drainTimeout = time.Second

const (
	// maxTrustedLength bounds the memory for a body that a client announced and did not
	// send yet.
	maxTrustedLength = 64 << 10
	// firstBuffer is the first buffer of a body whose length is not announced.
	firstBuffer = 512
)

var (
	errBodyTooLarge = errors.New("server: the body is larger than MaxRequestBytes")
	errBuffersFull  = errors.New("server: the bodies of all requests together would exceed MaxBufferedBytes, or those of one scope its share")
)

// An intake reads the body of one request into memory, within bounds of time and
// memory. It belongs to the request's goroutine, except for expire.
type intake struct {
	guard    *Guard
	w        http.ResponseWriter
	r        *http.Request
	web      *http.Server // nil if r does not come from a server
	control  readDeadliner
	scope    string // the scope that the memory counts for
	held     int64  // bytes taken from the guard's budget
	complete bool   // the whole body was read from the connection
}

func (g *Guard) newIntake(w http.ResponseWriter, r *http.Request) *intake {
	web, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return &intake{guard: g, w: w, r: r, web: web, complete: r.Body == nil || r.Body == http.NoBody}
}

// read returns the whole body of scope's request, or why the request is refused.
func (in *intake) read(scope string) ([]byte, *outcome) {
	g := in.guard
	in.scope = scope
	if in.r.ContentLength > g.cfg.MaxRequestBytes {
		return nil, &outcome{Code: wire.BodyTooLarge} // before the client is asked for it
	}
	if in.complete {
		return nil, nil
	}
	in.control = readDeadlinerOf(in.w)
	in.deadline(in.timeout())
	if !g.intakes.enter(in) {
		out := engine.ClosingRefusal()
		return nil, &out
	}
	body, err := in.fill(g.cfg.MaxRequestBytes)
	if err == nil && in.r.ContentLength > int64(len(body)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, in.refusal(err)
	}
	in.complete = true
	_ = in.control.SetReadDeadline(time.Time{}) // the handler gets no read deadline
	return body, nil
}

// refusal is the answer to a body that could not be read.
func (in *intake) refusal(err error) *outcome {
	g := in.guard
	switch late := errors.Is(err, os.ErrDeadlineExceeded); {
	case late && g.intakes.isClosed(in.web):
		out := engine.ClosingRefusal()
		return &out
	case late:
		return &outcome{Code: wire.BodyTimeout, RetryAfter: time.Second, Err: err}
	case errors.Is(err, errBuffersFull):
		return &outcome{Code: wire.NotClaimed, RetryAfter: time.Second, Err: err}
	case errors.Is(err, errBodyTooLarge), errors.As(err, new(*http.MaxBytesError)):
		return &outcome{Code: wire.BodyTooLarge}
	default:
		return &outcome{Code: wire.BodyIncomplete}
	}
}

// fill reads until the end of the body, into a buffer that grows as bytes come. in has
// entered the guard's intakes, and leaves them.
func (in *intake) fill(limit int64) ([]byte, error) {
	defer in.guard.intakes.leave(in) // also if the Body of an outer layer panics
	var body []byte
	for {
		if len(body) == cap(body) {
			size := in.nextSize(int64(cap(body)), limit)
			if !in.hold(size - 1 - in.held) { // the last byte only shows the end
				return nil, errBuffersFull
			}
			grown := make([]byte, len(body), size)
			copy(grown, body)
			body = grown
		}
		n, err := in.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errBodyTooLarge
		case err == io.EOF: //nolint:errorlint // an io.Reader returns it bare
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// nextSize is the size of the buffer that follows one of size bytes. It has
// room for one byte more than the body may have: that byte shows the end of the
// body, or that the body is too large.
//
// The announced length and the limit can be the largest number that there is.
func (in *intake) nextSize(size, limit int64) int64 {
	first, most := int64(firstBuffer), limit
	if announced := in.r.ContentLength; announced >= 0 {
		first, most = min(announced, maxTrustedLength-1)+1, announced
	}
	switch next := max(first, 2*size); {
	case size <= most && next >= most: // the end needs one byte of room, but no copy of the body
		return most + 1
	case next > limit: // a middleware made the body longer than announced
		return limit + 1
	default:
		return next
	}
}

// hold takes n bytes from the guard's budget until the request ends.
func (in *intake) hold(n int64) bool {
	if !in.guard.buffered.take(in.scope, n) {
		return false
	}
	in.held += n
	return true
}

// release ends the request's hold on memory.
func (in *intake) release() { in.guard.buffered.give(in.scope, in.held) }

// abandon lets net/http discard the rest of a refused request's body, for a short time only. A deadline that has
// passed stays: then net/http closes the connection at once. HTTP/2 resets the stream, and needs no deadline.
func (in *intake) abandon(refused *outcome) {
	if in.complete || in.r.ProtoMajor > 1 || refused.Code == wire.BodyTimeout {
		return
	}
	in.control = readDeadlinerOf(in.w)
	if in.guard.intakes.isClosed(in.web) {
		in.expire()
		return
	}
	_ = in.control.SetReadDeadline(time.Now().Add(min(drainTimeout, in.timeout())))
}

// timeout is how long the body may take. The new deadline replaces the deadline
// of http.Server.ReadTimeout, so timeout returns the shorter of the two.
func (in *intake) timeout() time.Duration {
	timeout := in.guard.cfg.BodyTimeout
	if in.web != nil && in.web.ReadTimeout > 0 {
		timeout = min(timeout, in.web.ReadTimeout)
	}
	return timeout
}

// A readDeadliner is a ResponseWriter that can bound the reading of its request's body.
type readDeadliner interface {
	SetReadDeadline(deadline time.Time) error
}

// readDeadlinerOf returns w if it is a readDeadliner, or else the readDeadliner
// that w wraps, like [http.ResponseController]. Without a readDeadliner it
// creates no error text.
func readDeadlinerOf(w http.ResponseWriter) readDeadliner {
	for {
		switch layer := w.(type) {
		case readDeadliner:
			return layer
		case interface{ Unwrap() http.ResponseWriter }:
			w = layer.Unwrap()
		default:
			return noReadDeadline{}
		}
	}
}

// noReadDeadline stands for a ResponseWriter without read deadlines.
type noReadDeadline struct{}

func (noReadDeadline) SetReadDeadline(time.Time) error { return http.ErrNotSupported }

// deadline bounds the reading of the body.
func (in *intake) deadline(timeout time.Duration) {
	err := in.control.SetReadDeadline(time.Now().Add(timeout))
	if err == nil || in.web == nil { // without a server no body is slow
		return
	}
	in.guard.noDeadline.Do(func() {
		in.guard.cfg.Logger.LogAttrs(in.r.Context(), slog.LevelWarn,
			"no read deadline: BodyTimeout has no effect, and Shutdown waits for bodies; give the middleware's ResponseWriter an Unwrap method",
			slog.String("response_writer", fmt.Sprintf("%T", in.w)), slog.Any("error", err))
	})
}

// expire makes the read that is going on fail, and later ones. Shutdown calls it from
// another goroutine.
func (in *intake) expire() { _ = in.control.SetReadDeadline(time.Unix(1, 0)) }

// intakes are the requests whose bodies are being read. The zero value is ready to use.
//
// Reading a body ends when the guard or its http.Server shuts down. Otherwise net/http would wait for the body,
// although no run has begun for it.
type intakes struct {
	mu      sync.Mutex
	closed  bool
	all     map[*intake]struct{}
	servers map[*http.Server]bool // true: it shuts down
}

// enter reports false if in's body is not to be read any more.
func (s *intakes) enter(in *intake) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.servers[in.web] {
		return false
	}
	if s.all == nil {
		s.all = make(map[*intake]struct{})
		s.servers = make(map[*http.Server]bool)
	}
	s.all[in] = struct{}{}
	if _, known := s.servers[in.web]; in.web != nil && !known {
		s.servers[in.web] = false
		web := in.web // in itself is soon gone
		web.RegisterOnShutdown(func() { s.closeServer(web) })
	}
	return true
}

// leave returns when no expire of in is running, and none can follow. A
// ResponseWriter must not be used after its handler returned.
func (s *intakes) leave(in *intake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, in)
}

// isClosed reports whether the guard or the server, which may be nil, shuts down.
func (s *intakes) isClosed(web *http.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.servers[web]
}

// close makes all reads fail, the running ones and later ones.
func (s *intakes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for in := range s.all {
		in.expire()
	}
}

// closeServer is close for the requests of one server.
func (s *intakes) closeServer(web *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[web] = true
	for in := range s.all {
		if in.web == web {
			in.expire()
		}
	}
}
