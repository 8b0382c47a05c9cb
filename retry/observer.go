package retry

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// An Observer hears how calls and their attempts begin and end. Its methods are called in
// the goroutine of the call, concurrently for concurrent calls, and must return quickly. For
// a request that passes through [Client.RoundTripper] the ends are observed when the header
// of its answer came. A call that panics has no end.
//
// CallStarted and AttemptStarted may put a span into the ctx. The ctx that they return must
// be derived from the ctx that they were given; an observer that needs no span returns that
// one. The call or attempt runs in that ctx, and its end is observed in it. Config.Prepare
// finds the ctx of an attempt in the request.
type Observer interface {
	// CallStarted is called once for each call, before anything is checked or sent.
	CallStarted(ctx context.Context, e Event) context.Context
	// AttemptStarted is called before each attempt, in the ctx of its call.
	AttemptStarted(ctx context.Context, e Event) context.Context
	// AttemptEnded is called after each attempt, before the wait that follows.
	AttemptEnded(ctx context.Context, e Event)
	// CallEnded is called once for each call, even if the call was never sent.
	CallEnded(ctx context.Context, e Event)
}

// An Event is the beginning or the end of a call, or of one of its attempts.
type Event struct {
	Service, Operation string
	Key                childkey.Key // show its Digest
	Attempt                         // the attempt that began or ended; zero for a call
	Target             Target       // of the call's requests; zero at the beginning of a call, and for a call of [Do]

	// The fields below are zero at a beginning.

	Attempts int       // of the call so far; with every delivery that net/http repeated by itself
	Outcome  Outcome   // of this attempt alone, or of the call
	Status   int       // of the last complete answer; 0: none. Over an RPC system it is one that stands for RPCStatus
	Code     wire.Code // "": none
	// RPCStatus is the status of the last complete answer over an RPC system, as [RPCTransport] tells it; "" over HTTP.
	RPCStatus string
	Replayed  bool // the callee says that an earlier attempt had run
	Elapsed   time.Duration
	Err       error // nil after a 2xx answer; at the end of a call it is the [*Error] that the call returned

	// Only the end of an attempt has the fields below.

	Deliveries int           // how often the callee may have got it; net/http causes more than 1
	Action     Action        // what the table says; the call may end all the same
	Wait       time.Duration // before the next attempt; 0: there is none
}

// A Target is where the requests of a call go, as a trace shows it. Its fields have the values that OpenTelemetry's
// conventions ask for.
type Target struct {
	System  string // the RPC system, "grpc" or "connectrpc"; "": HTTP
	Method  string // of HTTP; with a System the full name of the RPC, "stock.v1.Stock/Reserve"
	Address string // the service's host name, IP address or socket; "": not known
	Port    int    // 0: none, or not known
	URL     string // without user, query and fragment, which may hold secrets; "" with a System
}

// An RPCTransport is a [Config.Transport] whose requests stand for calls of an RPC system. Only an observed client asks it.
// Its methods are called concurrently.
type RPCTransport interface {
	http.RoundTripper
	// Target returns where the attempts of a call go. It is called before the first one. req has the method, the URL, the
	// header and the ctx of the call, but no body. It must not be changed.
	Target(req *http.Request) Target
	// RPCStatus returns the status that an answer from a target stands for, such as "UNAVAILABLE"; "" if none is known.
	RPCStatus(to Target, a Answer) string
}

// targetOf returns where the requests of a call go that begins with req; zero if nobody hears of it.
func (c *Client) targetOf(req *http.Request) Target {
	if c.cfg.Observer == nil || req.URL == nil {
		return Target{}
	}
	if t, ok := c.cfg.Transport.(RPCTransport); ok {
		return t.Target(req)
	}
	u := req.URL
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	to := Target{Method: req.Method, Address: u.Hostname(), URL: shown.String()}
	if req.Host != "" {
		to.Address = (&url.URL{Host: req.Host}).Hostname()
		u = &url.URL{Scheme: u.Scheme, Host: req.Host}
	}
	switch port, err := strconv.Atoi(u.Port()); {
	case err == nil:
		to.Port = port
	case u.Scheme == "https":
		to.Port = 443
	default:
		to.Port = 80
	}
	fill(&to.Method, http.MethodGet)
	return to
}

// isObserved reports whether anybody hears of the calls of c.
func (c *Client) isObserved() bool { return c.cfg.Observer != nil || c.cfg.Logger != nil }

// event returns an event of the call without its end.
func (r *run) event() Event {
	return Event{Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key}
}

// eventOfEnd returns the end of the call, or of an attempt, that began at the time began. A
// nil a means that no complete answer came.
func (r *run) eventOfEnd(began time.Time, outcome Outcome, a *answer, err error) Event {
	e := r.event()
	e.Target = r.target
	e.Attempts, e.Outcome, e.Elapsed, e.Err = r.attempts, outcome, time.Since(began), err
	if a != nil {
		e.Status, e.Code, e.Replayed = a.Status, a.code, a.Replayed
		if t, ok := r.client.cfg.Transport.(RPCTransport); ok && r.client.cfg.Observer != nil {
			e.RPCStatus = t.RPCStatus(r.target, a.Answer)
		}
	}
	return e
}

// observeAttempt tells the observer and the log how the attempt ended.
func (r *run) observeAttempt(v Verdict, deliveries int, wait time.Duration, a *answer, err error) {
	if !r.client.isObserved() {
		return
	}
	e := r.eventOfEnd(r.begun, v.Outcome, a, err)
	e.Attempt, e.Deliveries, e.Action, e.Wait = r.attempt, deliveries, v.Action, wait
	if o := r.client.cfg.Observer; o != nil {
		o.AttemptEnded(r.attempting, e)
	}
	if e.Action != Stop { // else the end of the call has it
		r.client.log(r.attempting, slog.LevelDebug, "retry: attempt failed", e, slog.Int("attempt", e.Number),
			slog.String("action", e.Action.String()), slog.Duration("wait", wait))
	}
}

// observeCall tells the observer and the log how the call ended; a is its last complete
// answer, and failed its error, nil if there is none.
func (r *run) observeCall(a *answer, failed *Error) {
	if !r.client.isObserved() {
		return
	}
	e := r.eventOfEnd(r.start, Completed, a, nil)
	if failed != nil {
		e.Outcome, e.Err = failed.Outcome, failed
	}
	if o := r.client.cfg.Observer; o != nil {
		o.CallEnded(r.caller, e)
	}
	level := slog.LevelDebug
	switch {
	case failed == nil:
		return
	case e.Code == wire.KeyReused:
		level = slog.LevelError // a mistake in a program: no retry will mend it
	case e.Outcome == Unknown:
		level = slog.LevelWarn
	}
	r.client.log(r.caller, level, "retry: call ended", e, slog.Int("attempts", e.Attempts), slog.Duration("elapsed", e.Elapsed))
}

// warnUnmarked writes once for each service that its answers lack the mark of a guard.
func (c *Client) warnUnmarked(ctx context.Context, service string) {
	if c.cfg.Logger == nil {
		return
	}
	if _, warned := c.unmarked.LoadOrStore(service, true); !warned {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "retry: an answer does not come from the service's guard",
			slog.String("service", service), slog.Any("err", ErrUnmarked))
	}
}

// log writes an event with further attributes, if there is a log.
func (c *Client) log(ctx context.Context, level slog.Level, text string, e Event, more ...slog.Attr) {
	if c.cfg.Logger == nil {
		return
	}
	c.cfg.Logger.LogAttrs(ctx, level, text, append(more,
		slog.String("service", e.Service), slog.String("operation", e.Operation),
		slog.String("key_digest", e.Key.Digest()), slog.String("outcome", e.Outcome.String()),
		slog.Int("status", e.Status), slog.String("code", string(e.Code)), slog.Any("err", e.Err))...)
}
