package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A trouble is a row of the table of failures: what goes wrong over real
// sockets, and what the client makes of it.
type trouble struct {
	name string
	// The failure: do is the server's handler for every attempt, or arrange sets the failure up.
	// arrange may change the call to the handler, too.
	do      func(s *scene, w http.ResponseWriter, r *http.Request)
	arrange func(t *testing.T, s *scene)
	timeout func(cfg *retry.Config, d time.Duration) // sets the one that is to end; nil: none is
	never   map[protocol]string                      // where it cannot happen, and why

	outcome  retry.Outcome
	action   retry.Action
	attempts int // of two
	is       []error
	as       func(error) bool // reaches the cause; nil: there is none to reach
}

// A scene is one run of a row.
type scene struct {
	protocol
	cfg    retry.Config
	call   retry.Call
	ctx    context.Context
	cancel context.CancelFunc
	events *recorder
	hits   atomic.Int32 // requests that the handler saw
}

// TestSend_everyFailure runs each row of the four tables, which are here and in
// failure_unsent_test.go and failure_frames_test.go, on each protocol.
func TestSend_everyFailure(t *testing.T) {
	t.Parallel()
	for _, row := range slices.Concat(unsentTroubles, handshakeTroubles, sentTroubles, frameTroubles) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			overEach(t, func(t *testing.T, p protocol) {
				if why := row.never[p]; why != "" {
					t.Skipf("not over %s: %s", p, why)
				}
				row.run(t, p)
			})
		})
	}
}

// run makes the call. A timeout grows until what it ends is the row's trouble:
// on a slow machine it may end something that came before.
func (row *trouble) run(t *testing.T, p protocol) {
	t.Helper()
	const longest = 10 * time.Second
	for d := 100 * time.Millisecond; ; d *= 2 {
		s := row.scene(t, p, 1<<30)
		if row.timeout != nil {
			row.timeout(&s.cfg, d)
		}
		failed := failureContext(t, s.ctx, newClient(t, s.cfg), s.call)
		s.cancel()
		wrong := row.mismatch(s, failed)
		if wrong == "" {
			break
		}
		if row.timeout == nil || d > longest {
			t.Fatal(wrong)
		}
	}
	if row.do != nil && row.timeout == nil && row.action == retry.Retry && row.attempts == 2 {
		row.heals(t, p)
	}
}

// heals checks that a retry after one failure brings the answer.
func (row *trouble) heals(t *testing.T, p protocol) {
	t.Helper()
	s := row.scene(t, p, 1)
	resp, err := newClient(t, s.cfg).Send(s.ctx, s.call)
	require.NoError(t, err)
	require.Equal(t, 2, resp.Attempts)
	require.Equal(t, "healed", string(resp.Body))
	require.EqualValues(t, 2, s.hits.Load())
}

// scene sets the row up; its handler goes wrong that many times.
func (row *trouble) scene(t *testing.T, p protocol, times int32) *scene {
	t.Helper()
	s := &scene{protocol: p, call: post(""), events: &recorder{}}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	t.Cleanup(s.cancel)
	if row.do != nil {
		srv, cfg := serve(t, p, func(w http.ResponseWriter, r *http.Request) {
			if s.hits.Add(1) <= times {
				row.do(s, w, r)
				return
			}
			drain(r)
			io.WriteString(w, "healed")
		})
		s.cfg, s.call.URL = cfg, srv.URL
	}
	if row.arrange != nil {
		row.arrange(t, s)
	}
	s.cfg.MaxAttempts, s.cfg.Observer = 2, s.events
	return s
}

// mismatch says what about the end of the call is not as in the row.
func (row *trouble) mismatch(s *scene, failed *retry.Error) string {
	is := append(slices.Clone(row.is), map[retry.Outcome]error{
		retry.NotSent: retry.ErrNotSent, retry.Rejected: retry.ErrRejected, retry.Unknown: retry.ErrUnknown, retry.Completed: retry.ErrCompleted,
	}[row.outcome])
	var wrong []string
	for _, target := range is {
		if !errors.Is(failed, target) {
			wrong = append(wrong, fmt.Sprintf("errors.Is(_, %q) = false, want true", target))
		}
	}
	if row.as != nil && !row.as(failed) {
		wrong = append(wrong, "errors.As does not reach the cause")
	}
	if failed.Outcome != row.outcome {
		wrong = append(wrong, fmt.Sprintf("outcome %v, want %v", failed.Outcome, row.outcome))
	}
	if failed.Attempts != row.attempts || failed.Retryable != (row.action != retry.Stop) {
		wrong = append(wrong, fmt.Sprintf("%d attempts, retryable = %v, want %d and %v",
			failed.Attempts, failed.Retryable, row.attempts, row.action != retry.Stop))
	}
	for _, e := range s.events.attempts {
		if e.Action != row.action || e.Outcome != row.outcome {
			wrong = append(wrong, fmt.Sprintf("attempt %d: %v, %v, want %v, %v", e.Number, e.Outcome, e.Action, row.outcome, row.action))
		}
	}
	if hits := int(s.hits.Load()); row.do != nil && hits != failed.Attempts {
		wrong = append(wrong, fmt.Sprintf("%d attempts, want the %d that the server saw", failed.Attempts, hits))
	}
	if wrong != nil {
		wrong = append(wrong, fmt.Sprintf("of %v", failed))
	}
	return strings.Join(wrong, "\n")
}

// as reports whether errors.As finds a T in err.
func as[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// attemptTimeout and callTimeout set the timeout that a row wants to end.
func attemptTimeout(cfg *retry.Config, d time.Duration) { cfg.AttemptTimeout = d }
func callTimeout(cfg *retry.Config, d time.Duration)    { cfg.Timeout, cfg.MaxAttempts = d, 1 }

// drain reads the request to its end.
func drain(r *http.Request) { io.Copy(io.Discard, r.Body) }

// outlast waits until the client gives up. It says nothing then: an answer that
// is complete in the last moment counts.
func outlast(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// sentTroubles come after the request was written, or begun to be: the callee
// may have done its work.
var sentTroubles = []trouble{
	{
		name: "reset after the write", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		do: func(_ *scene, _ http.ResponseWriter, r *http.Request) { drain(r); cut(r) },
	},
	{
		name: "hung up after the write", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		do: func(_ *scene, _ http.ResponseWriter, r *http.Request) { drain(r); hangUp(r) },
	},
	{
		name: "aborted by its handler", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		do: func(_ *scene, _ http.ResponseWriter, r *http.Request) { drain(r); panic(http.ErrAbortHandler) },
	},
	{
		name: "reset while the body is written", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		arrange: func(_ *testing.T, s *scene) { s.call.Body = make([]byte, 8<<20) }, // more than any buffer on the way
		do:      func(_ *scene, _ http.ResponseWriter, r *http.Request) { cut(r) },
	},
	{
		name: "reset after an interim answer", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			w.WriteHeader(http.StatusEarlyHints)
			cut(r)
		},
	},
	{
		name: "answer shorter than announced", outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: []error{retry.ErrTruncated},
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) { drain(r); begin(w, http.StatusOK, true) },
	},
	{
		name: "answer without a length cut off", outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: []error{retry.ErrTruncated},
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			begin(w, http.StatusCreated, false)
			panic(http.ErrAbortHandler)
		},
	},
	{
		name: "error page cut off", outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: []error{retry.ErrTruncated},
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			begin(w, http.StatusBadRequest, true)
		},
	},
	{
		name: "answer that does not unpack", outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: []error{retry.ErrTruncated},
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "no gzip at all")
		},
	},
	{
		name: "no answer in time", outcome: retry.Unknown, action: retry.Retry, attempts: 2, is: []error{retry.ErrAttemptTimeout},
		timeout: attemptTimeout,
		do:      func(_ *scene, _ http.ResponseWriter, r *http.Request) { drain(r); outlast(r) },
	},
	{
		name: "no end of the answer in time", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		is: []error{retry.ErrAttemptTimeout, retry.ErrTruncated}, timeout: attemptTimeout,
		do: func(_ *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			begin(w, http.StatusOK, true)
			outlast(r)
		},
	},
	{
		name: "the call's time ends", outcome: retry.Unknown, action: retry.Retry, attempts: 1,
		is: []error{retry.ErrDeadline, context.DeadlineExceeded}, timeout: callTimeout,
		do: func(_ *scene, _ http.ResponseWriter, r *http.Request) { drain(r); outlast(r) },
	},
	{
		name: "the caller leaves", outcome: retry.Unknown, action: retry.Retry, attempts: 1, is: []error{context.Canceled},
		do: func(s *scene, _ http.ResponseWriter, r *http.Request) {
			drain(r)
			s.cancel()
			outlast(r)
		},
	},
	{
		name: "the caller leaves in the middle of the answer", outcome: retry.Unknown, action: retry.Retry, attempts: 1, is: []error{context.Canceled},
		do: func(s *scene, w http.ResponseWriter, r *http.Request) {
			drain(r)
			begin(w, http.StatusOK, true)
			s.cancel()
			outlast(r)
		},
	},
	{
		name: "no HTTP at all", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		never:   map[protocol]string{http2: "frameTroubles has its likes"},
		arrange: func(t *testing.T, s *scene) { s.says(t, "SSH-2.0-OpenSSH_9.2\r\n\r\n") },
	},
	{
		name: "no status in the status line", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		never:   map[protocol]string{http2: "it has no status line"},
		arrange: func(t *testing.T, s *scene) { s.says(t, "HTTP/1.1 20 OK\r\n\r\n") },
	},
	{
		name: "status below 100", outcome: retry.Unknown, action: retry.Retry, attempts: 2,
		never:   map[protocol]string{http2: "frameTroubles has its likes"},
		arrange: func(t *testing.T, s *scene) { s.says(t, "HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n") },
	},
	{
		name: "TLS behind http", outcome: retry.Rejected, action: retry.Stop, attempts: 1,
		never: map[protocol]string{secure: "its URL is https", http2: "its URL is https"},
		arrange: func(t *testing.T, s *scene) {
			srv, cfg := serve(t, secure, okay)
			s.cfg, s.call.URL = cfg, "http"+srv.URL[len("https"):]
		},
	},
}

// says sets up a server that answers each request with text and hangs up.
func (s *scene) says(t *testing.T, text string) {
	url, tr := speak(t, s.protocol, func(conn net.Conn) {
		defer conn.Close()
		readRequest(conn)
		io.WriteString(conn, text)
	})
	s.cfg, s.call.URL = over(tr), url
}

// begin writes four bytes of an answer; announced says that there are ten.
func begin(w http.ResponseWriter, status int, announced bool) {
	w.Header().Set(wire.HeaderReplayed, "false")
	if announced {
		w.Header().Set("Content-Length", "10")
	}
	w.WriteHeader(status)
	io.WriteString(w, "half")
	w.(http.Flusher).Flush()
}
