package faultnet

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"
)

// maxMessageBytes bounds what an edge holds of one request or answer.
const maxMessageBytes = 1 << 20

// A message is a request that was read to its end, so that copies can be sent.
type message struct {
	method, path string
	header       http.Header
	body         []byte
}

func newMessage(w http.ResponseWriter, r *http.Request) (message, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
	return message{r.Method, r.URL.RequestURI(), r.Header.Clone(), body}, err
}

// An answer is the answer of a callee, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send delivers msg and waits for the answer, or until the edge's patience ends.
func (e *Edge) send(ctx context.Context, msg message) answer {
	if e.patience == 0 {
		return e.deliver(ctx, msg)
	}
	answered := make(chan answer, 1)
	e.messages.wait.Go(func() { answered <- e.deliver(ctx, msg) })
	timer := time.NewTimer(e.patience)
	defer timer.Stop()
	select {
	case got := <-answered:
		return got
	case <-timer.C:
		e.counts.add(func(c *Counts) { c.TimedOut++ })
		return answer{status: http.StatusGatewayTimeout}
	}
}

// deliver sends msg and waits for the answer.
func (e *Edge) deliver(ctx context.Context, msg message) answer {
	ctx, free := e.messages.context(ctx)
	defer free()
	var delivered atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		delivered.Store(info.Err == nil)
	}})
	e.inFlight.Add(1)
	got, err := e.roundTrip(ctx, msg)
	e.inFlight.Add(-1)
	e.counts.add(func(c *Counts) {
		switch {
		case !delivered.Load():
			c.Refused++
		case err != nil:
			c.Delivered++
			c.Unanswered++
		default:
			c.Delivered++
		}
	})
	if err != nil {
		return answer{status: http.StatusBadGateway}
	}
	return got
}

func (e *Edge) roundTrip(ctx context.Context, msg message) (answer, error) {
	target := e.target.Load()
	if target == nil {
		return answer{}, http.ErrServerClosed
	}
	req, err := http.NewRequestWithContext(ctx, msg.method, "http://"+*target+msg.path, bytes.NewReader(msg.body))
	if err != nil {
		return answer{}, err
	}
	req.Header = msg.header.Clone()
	req.GetBody = nil // or net/http may send it again by itself
	resp, err := e.upstream.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessageBytes))
	return answer{resp.StatusCode, resp.Header, body}, err
}

func (a answer) write(w http.ResponseWriter) {
	a.writeHead(w)
	_, _ = w.Write(a.body) // the caller may be gone
	_ = http.NewResponseController(w).Flush()
}

// writeHalf announces the whole answer and sends half of it. It sends nothing of
// an answer without a body, because its head alone would be a complete answer.
func (a answer) writeHalf(w http.ResponseWriter) {
	if len(a.body) == 0 {
		return
	}
	a.writeHead(w)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
}

func (a answer) writeHead(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Connection") // the callee's connection is not the caller's
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
}
