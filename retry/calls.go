package retry

import (
	"context"
	"net/http"
	"sync"

	"github.com/fanonce/fanonce/childkey"
)

// Calls notes the calls that are made under one ctx, and what is known of their effects.
// It is for code that runs a function and must know what the function left behind,
// whatever error the function returns. Package saga runs the functions of its steps so.
//
// A call by a safe method (GET, HEAD, OPTIONS, TRACE) counts as one without an effect.
//
// A request without a key that passes through [Client.RoundTripper] ends when the body of
// its answer ends or is closed. It is Unknown if the body breaks off.
//
// The zero Calls is ready to use. A nil *Calls notes nothing. A Calls is safe for concurrent
// use.
type Calls struct {
	of *Calls // what it notes in; nil: itself
	up *Calls // of the ctx around, which notes the same calls; nil: none

	mu      sync.Mutex
	open    int             // running calls
	unnamed [4]int          // calls without an id that ended, by outcome
	named   map[any]Outcome // the others, by id
}

type callsKey struct{}

// Context returns ctx with c. [Client.Send], [Client.Do], the client's round trippers,
// [Client.Refuse] and [Do] note in c what they call under that ctx, and in the Calls that
// ctx carries already. The Context of a nil *Calls is ctx.
func (c *Calls) Context(ctx context.Context) context.Context {
	up := CallsFrom(ctx)
	switch {
	case c == nil, up.reaches(c):
		return ctx
	case up != nil:
		c = &Calls{of: c.target(), up: up}
	}
	return context.WithValue(ctx, callsKey{}, c)
}

// target returns the Calls that c notes in.
func (c *Calls) target() *Calls {
	if c != nil && c.of != nil {
		return c.of
	}
	return c
}

// reaches reports whether what is noted in c is noted in other too.
func (c *Calls) reaches(other *Calls) bool {
	for ; c != nil; c = c.up {
		if c.target() == other.target() {
			return true
		}
	}
	return false
}

// CallsFrom returns the Calls that ctx carries; nil if it carries none. A call that is
// noted in them is noted in those of every ctx around.
func CallsFrom(ctx context.Context) *Calls {
	c, _ := ctx.Value(callsKey{}).(*Calls)
	return c
}

// Begin notes that a call begins. The caller must call end once, when the call has ended;
// until then its outcome is Unknown. Begin is for calls that no [Client] makes.
//
// id must be comparable and names the call. A call with the same id is the same call made
// again. A nil id names none. resumed says that the outcome of the call speaks for the
// earlier ones with its id too. Without it an effect that one of those may have had stays.
func (c *Calls) Begin(id any, resumed bool) (end func(Outcome)) {
	if c == nil {
		return func(Outcome) {}
	}
	own := c.target()
	own.mu.Lock()
	own.open++
	own.mu.Unlock()
	if c.up == nil {
		return func(o Outcome) { own.end(id, resumed, o) }
	}
	around := c.up.Begin(id, resumed)
	return func(o Outcome) {
		own.end(id, resumed, o)
		around(o)
	}
}

func (c *Calls) end(id any, resumed bool, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	o = o.sure()
	if id == nil {
		c.unnamed[o]++
		return
	}
	if c.named == nil {
		c.named = make(map[any]Outcome)
	}
	switch earlier, again := c.named[id]; {
	case again && earlier == Completed, again && earlier == Unknown && !resumed && o != Completed:
	default:
		c.named[id] = o
	}
}

// Outcome returns what is known of all calls together. It is Unknown if one call is Unknown
// or still runs. Otherwise it is Completed if one took effect, Rejected if one was
// rejected, and else NotSent.
func (c *Calls) Outcome() Outcome {
	counts := c.count()
	for _, o := range []Outcome{Unknown, Completed, Rejected} {
		if counts[o] > 0 {
			return o
		}
	}
	return NotSent
}

// Unknown returns how many calls are Unknown. A running call counts.
func (c *Calls) Unknown() int { return c.count()[Unknown] }

// count returns how many calls there are, by outcome.
func (c *Calls) count() [4]int {
	if c == nil {
		return [4]int{}
	}
	c = c.target()
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.unnamed
	counts[Unknown] += c.open
	for _, o := range c.named {
		counts[o]++
	}
	return counts
}

// Made reports whether e is the error of a call that c noted. It is false for an
// Error that other code made, and for that of a call under another ctx.
func (c *Calls) Made(e *Error) bool { return c != nil && e != nil && e.calls.reaches(c) }

// Ended reports whether a call with that id was noted, and has ended.
func (c *Calls) Ended(id any) bool {
	if c == nil {
		return false
	}
	c = c.target()
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ended := c.named[id]
	return ended
}

// A callID names a call for [Calls]: by its key, and by who gets it.
type callID struct {
	service, operation, target string
	key                        childkey.Key
}

// note notes in the Calls of ctx that the run begins; call is nil if it is not one over
// HTTP.
func (r *run) note(ctx context.Context, call *Call) {
	if r.calls = CallsFrom(ctx); r.calls == nil {
		return
	}
	id := callID{service: r.task.Service, operation: r.task.Operation, key: r.task.Key}
	if call != nil {
		r.reads = isSafe(call.Method)
		if id.target = call.Method + " " + call.URL; call.url != nil {
			id.target = call.Method + " " + call.url.String()
		}
	}
	var named any = id
	if id.key.IsZero() {
		named = nil
	}
	r.noted = r.calls.Begin(named, r.task.Resumed)
}

// noteEnd notes how the run ended; failed is its error, nil if there is none.
func (r *run) noteEnd(failed *Error) {
	switch {
	case r.noted == nil:
	case r.reads:
		r.noted(NotSent)
	case failed == nil:
		r.noted(Completed)
	default:
		r.noted(failed.Outcome)
	}
}

// isSafe reports whether the method asks for no effect (RFC 9110 section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
