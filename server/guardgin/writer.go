package guardgin

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// noBody is the Size of an answer of which nothing was written, as gin has it.
const noBody = -1

// A writer is gin's ResponseWriter over the guard's recorder. Like gin's own it keeps a status until the first byte, so
// that a handler can still change it.
type writer struct {
	http.ResponseWriter

	status int
	size   int
}

var _ gin.ResponseWriter = (*writer)(nil)

func newWriter(w http.ResponseWriter) *writer {
	return &writer{ResponseWriter: w, status: http.StatusOK, size: noBody}
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status. Informational ones go out at once. One that is too late does too: the guard drops it, and
// logs it if it denies a success.
func (w *writer) WriteHeader(status int) {
	switch {
	case status < 200 && status >= 100:
		w.ResponseWriter.WriteHeader(status)
	case w.Written():
		w.ResponseWriter.WriteHeader(status)
	case status > 0:
		w.status = status
	}
}

// WriteHeaderNow begins the answer.
func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *writer) Write(data []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(data)
	w.size += n
	return n, err
}

// WriteString implements [gin.ResponseWriter].
func (w *writer) WriteString(text string) (int, error) {
	w.WriteHeaderNow()
	n, err := io.WriteString(w.ResponseWriter, text)
	w.size += n
	return n, err
}

// Status returns the status of the answer, 200 if none was set.
func (w *writer) Status() int { return w.status }

// Size returns the bytes of the body so far, -1 before the answer began.
func (w *writer) Size() int { return w.size }

// Written reports whether the answer began.
func (w *writer) Written() bool { return w.size != noBody }

// Flush asks the guard's recorder to flush, which does what the route's Stream says.
func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack does what the route's Stream says.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.size = max(w.size, 0)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// CloseNotify never sends: a run goes on when its client leaves.
func (w *writer) CloseNotify() <-chan bool { return make(chan bool) }

// Pusher returns nil: a stored answer cannot push.
func (w *writer) Pusher() http.Pusher { return nil }
