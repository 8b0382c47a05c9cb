package sdk

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A Request is a call that no typed operation describes; see [Client.Send].
type Request struct {
	// Service and Operation are the names that the child key is derived from;
	// both are required, and the Service is one of [Config.Services].
	Service, Operation string
	// Discriminators tell several calls of the operation under one parent
	// apart; nil means none. See childkey.Derive for their limits.
	Discriminators []string
	// Method is the HTTP method; "" means POST. A safe one (GET, HEAD, OPTIONS, TRACE) asks
	// for no effect: such a call has no key.
	Method string
	// Path is appended to the service's URL, escaped; it starts with "/" and
	// may have a query. Required.
	Path string
	// Header is sent with the call; nil means none. It is copied.
	Header http.Header
	// Body is sent as it is, on every attempt; nil means none. It is copied.
	// Under one key it must be the same bytes after a restart as well: encode
	// it without times, random values and unsorted maps.
	Body []byte
	// Stream is a body that is too long for memory, such as an upload. Nil means Body.
	// It cannot carry the key (retry.Profile.BodyField).
	Stream *retry.Stream
	// ContentType describes the body; "" means application/json.
	ContentType string
	// Cancels is the key of the forward call that this one undoes; the zero
	// Key means that it undoes none. See [CallUndo].
	Cancels childkey.Key
	// Ran says, with Cancels, that the forward call took effect: its answer is known. Then the callee undoes it also
	// if its own record of the call has been swept. False means that the callee's record alone decides. Without Cancels,
	// Ran is an [ErrRequest].
	Ran bool
	// FirstSent is when this call was first sent, or its intent was stored,
	// from something that a restart does not change. Zero means the time that
	// the parent key was claimed, inside a guarded handler; elsewhere nothing.
	FirstSent time.Time
	// Resumed says that an earlier run may have sent this call. A refusal of this run then
	// does not prove that the call had no effect. In a guarded handler that runs again it is
	// set already.
	Resumed bool
	// Limits are the call's own; the zero Limits are those of the service's retry.Config.
	Limits retry.Limits
}

// Send makes the call that req describes and blocks until it has a complete 2xx answer. Its
// error is a [*retry.Error], whose Outcome says what is known of the effect. A mistake in
// req is refused before anything is sent. ctx carries the parent key ([ErrNoParent]), which
// is never sent itself.
//
// A call by a safe method (GET, HEAD, OPTIONS, TRACE) has no key, needs no parent key, and may be made again with another
// path. A refusal of it is final, whatever an earlier run got.
func (c *Client) Send(ctx context.Context, req Request) (*retry.Response, error) {
	out, err := c.compose(ctx, req)
	if err != nil {
		return nil, err
	}
	return out.deliver(ctx)
}

// outgoing is a call that is ready to be sent: checked, keyed and frozen.
type outgoing struct {
	service *service
	child   child
	call    retry.Call
	name    string // with the discriminators
	ran     bool   // [Request.Ran]
	// firstRun says that FirstSent is when the request began whose first run this is:
	// the call itself was not sent then.
	firstRun bool
	undo     undoFunc // nil: nothing is known that undoes it
}

// compose does everything about a call that needs no I/O. Its error is a
// *retry.Error of outcome NotSent.
func (c *Client) compose(ctx context.Context, req Request) (*outgoing, error) {
	out, err := c.build(ctx, req)
	if err != nil {
		return nil, c.refuse(ctx, retry.Task{Service: req.Service, Operation: req.Operation}, err)
	}
	return out, nil
}

func (c *Client) build(ctx context.Context, req Request) (*outgoing, error) {
	s, err := c.service(req.Service)
	if err != nil {
		return nil, err
	}
	req.Method = cmp.Or(req.Method, http.MethodPost)
	if !isToken(req.Method) {
		return nil, fmt.Errorf("%w: Method: %q is no HTTP method", ErrRequest, req.Method)
	}
	url, err := s.resolve(req.Path)
	if err != nil {
		return nil, err
	}
	if req.Ran && req.Cancels.IsZero() {
		return nil, fmt.Errorf("%w: Ran without Cancels, the key of the call to undo", ErrRequest)
	}
	header, err := s.mergeHeader(req)
	if err != nil {
		return nil, err
	}
	child, err := s.deriveChild(ctx, req)
	if err != nil {
		return nil, err
	}
	in, _ := wire.FromContext(ctx)
	firstRun := false
	switch {
	case isSafe(req.Method): // what an earlier run read does not matter
		in, req.FirstSent, req.Resumed = wire.Inbound{}, time.Time{}, false
	case req.FirstSent.IsZero():
		req.FirstSent, firstRun = in.FirstSent, !in.Rerun && !req.Resumed
		if !req.Ran {
			req.FirstSent = s.sentSince(req.FirstSent, req.Cancels, in)
		}
	}
	name := branchName(req.Service, req.Operation, req.Discriminators)
	out := &outgoing{service: s, child: child, name: name, ran: req.Ran, firstRun: firstRun, call: retry.Call{
		Method: req.Method, URL: url, Header: header, Body: bytes.Clone(req.Body), Stream: req.Stream,
		Key: child.key, Cancels: req.Cancels,
		Service: req.Service, Operation: req.Operation,
		FirstSent: req.FirstSent, Resumed: req.Resumed || in.Rerun, Limits: req.Limits,
	}}
	return out, out.check(req)
}

// sentSince returns first, or the time since when the call that cancels names can have been sent, if that is earlier
// and the service is told of that call.
func (s *service) sentSince(first time.Time, cancels childkey.Key, in wire.Inbound) time.Time {
	if !cancels.IsZero() && s.namesForward() && !in.ForwardSent.IsZero() && in.ForwardSent.Before(first) {
		return in.ForwardSent
	}
	return first
}

// namesForward reports whether the service is told which call an undo cancels.
func (s *service) namesForward() bool {
	return slices.ContainsFunc(s.profile.Headers, func(name string) bool { return strings.EqualFold(name, wire.HeaderCancels) })
}

// check finds what is wrong with the body before anything of a fan-out is sent.
func (o *outgoing) check(req Request) error {
	switch {
	case req.Body != nil && req.Stream != nil:
		return fmt.Errorf("%w: Body and Stream are both set", ErrRequest)
	case o.service.profile.BodyField != "":
		return o.service.client.Check(o.call)
	}
	return nil
}

// mergeHeader returns the service's headers with those of one call, which win.
func (s *service) mergeHeader(req Request) (http.Header, error) {
	header := s.header.Clone()
	maps.Copy(header, canonical(req.Header))
	if req.Body != nil || req.Stream != nil {
		header.Set("Content-Type", cmp.Or(req.ContentType, contract.ContentType))
	}
	if req.Ran && s.namesForward() {
		header.Set(wire.HeaderForward, wire.ForwardRan)
	}
	return header, checkHeader(header, s.profile)
}

// ours are the headers that the sdk and the retry client set. A call that sets them itself
// would have another key, or tell the callee something wrong.
var ours = slices.Concat(retry.Fanonce().Headers, []string{wire.HeaderKey})

// framing are the headers that belong to the HTTP connection.
var framing = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// checkHeader returns an error wrapping ErrRequest if a call cannot have
// header. It shows names and never values, which may be secrets.
func checkHeader(header http.Header, profile *retry.Profile) error {
	for name, values := range header {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isToken(name):
			return fmt.Errorf("%w: %q is no header name", ErrRequest, name)
		case slices.Contains(ours, canonical), profile.KeyHeader != "" && strings.EqualFold(name, profile.KeyHeader):
			return fmt.Errorf("%w: header %s is set by the client; leave it out", ErrRequest, canonical)
		case slices.Contains(framing, canonical):
			return fmt.Errorf("%w: header %s belongs to the connection; leave it out", ErrRequest, canonical)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("%w: header %s has a control character", ErrRequest, canonical)
			}
		}
	}
	return nil
}

// canonical returns a copy of header with its names as net/http spells them. If a header is
// there in two spellings, every value is kept, in the order of the spellings. So each run
// sends the same.
func canonical(header http.Header) http.Header {
	out := make(http.Header, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		out[http.CanonicalHeaderKey(name)] = append(out[http.CanonicalHeaderKey(name)], header[name]...)
	}
	return out
}

// isToken reports whether s is a token (RFC 9110 section 5.6.2): a method or the
// name of a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alnum := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
