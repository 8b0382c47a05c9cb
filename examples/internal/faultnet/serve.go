package faultnet

import (
	"context"
	"net/http"
)

// ServeHTTP carries one request to the callee and its answer back, or not. It
// is how the edge's own listener serves, and exported for http.Handler alone.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	msg, err := newMessage(w, r)
	if err != nil || !e.messages.start() {
		cut()
	}
	defer e.messages.wait.Done()
	f := e.fates.take(msg.path, msg.body)
	e.counts.add(func(c *Counts) {
		c.Attempts++
		if f.kind != "" {
			c.Faults[f.kind]++
		}
	})
	ctx := r.Context()
	switch f.kind {
	case DropRequest:
		cut()
	case DropResponse:
		e.send(ctx, msg)
		cut()
	case Truncate:
		e.send(ctx, msg).writeHalf(w)
		cut()
	case BadGateway:
		if f.late {
			e.send(ctx, msg)
		}
		w.WriteHeader(http.StatusBadGateway)
	case Duplicate:
		e.sendTwice(ctx, msg, f).write(w)
	case Delay:
		e.delay(ctx, msg, f).write(w)
	default:
		e.send(ctx, msg).write(w)
	}
}

// sendTwice returns the first copy's answer; nobody sees the second's.
func (e *Edge) sendTwice(ctx context.Context, msg message, f fate) answer {
	first := make(chan answer, 1)
	e.messages.wait.Go(func() {
		if f.late {
			<-first // the copy may outlive the original's connection
			e.messages.hold(f.wait)
		}
		e.send(ctx, msg)
	})
	got := e.send(ctx, msg)
	first <- got
	return got
}

func (e *Edge) delay(ctx context.Context, msg message, f fate) answer {
	if !f.late {
		e.messages.hold(f.wait)
	}
	got := e.send(ctx, msg)
	if f.late {
		e.messages.hold(f.wait)
	}
	return got
}

// cut closes the caller's connection, as a network that fails would: without
// an answer, or after as much of one as was flushed.
func cut() { panic(http.ErrAbortHandler) }
