package sdk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// RoundTripper returns a transport for the http.Client of a generated client. Its requests
// then go to the service as calls of [Client.Send] do. Each gets a child key of the parent
// key that its ctx carries. It is repeated, and has the service's Profile, Header and HeaderFunc.
//
//	payments := paymentapi.NewClient(url, &http.Client{Transport: client.RoundTripper("payment")})
//
// The operation is the request's method and path template ([Service.Templates]), and its
// discriminator is the path, without the path of [Service.URL], or the SHA-256 of a path of
// more than 256 bytes. [Service.OperationFunc] replaces that rule. The derived key replaces one that the request has, such as the random
// key that stripe-go makes.
//
// Two requests with one operation, URL, host and body are the same call. If both are to take
// effect, an OperationFunc must tell them apart. A request that gets the key of another one
// and differs from it is refused (childkey.ErrDuplicateChild). The body must be the same
// bytes after a restart; some generated clients put a random boundary or an unsorted map
// into it.
//
// A request by a safe method (GET, HEAD, OPTIONS, TRACE), or one that OperationFunc gives
// no operation, gets no key and passes through as [retry.Client.RoundTripper] says. Any
// other request needs a parent key in ctx ([ErrNoParent]) and an answer that fits into
// memory. A stream of gRPC or connect cannot have a key and is an [ErrRequest]. So is a
// request to another place than the service's URL, or to an opaque URL. A redirect keeps
// the key of the first request, and must not leave the service.
//
// The transport keeps the contract of http.RoundTripper, as [retry.Client.RoundTripper]
// does. Every error is a [*retry.Error]. Without a service of that name every request fails
// with [ErrNoService].
func (c *Client) RoundTripper(service string) http.RoundTripper {
	return &transport{client: c, name: service}
}

// A transport makes the requests to one service.
type transport struct {
	client *Client
	name   string
}

// RoundTrip makes one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil {
		return nil, t.client.refuse(context.Background(), retry.Task{Service: t.name}, fmt.Errorf("%w: no request", ErrRequest))
	}
	s, err := t.client.service(t.name)
	if err != nil {
		return nil, t.refuse(req, "", err)
	}
	n, err := s.nameOf(req)
	if err != nil {
		return nil, t.refuse(req, n.operation, err)
	}
	if n.operation == "" {
		return t.pass(s, req, n)
	}
	return s.exchange(req, n)
}

// refuse ends a request before anything of it was sent.
func (t *transport) refuse(req *http.Request, operation string, err error) *retry.Error {
	if req.Body != nil {
		_ = req.Body.Close() // its error is not why the request ends
	}
	task := retry.Task{Service: t.name, Operation: operation, Resumed: req.Response != nil && !isSafe(req.Method)}
	return t.client.refuse(req.Context(), task, err)
}

// pass sends a request that gets no key. If a redirect led it to another origin, it does not
// get the service's headers.
func (t *transport) pass(s *service, req *http.Request, n callName) (*http.Response, error) {
	out := req
	if !n.elsewhere {
		header, err := s.headerOf(req.Context(), req.Header, s.headerFunc)
		if err != nil {
			return nil, t.refuse(req, "", err)
		}
		out = req.WithContext(req.Context()) // a copy: the caller's request stays as it is
		out.Header = header
	}
	resp, err := s.client.RoundTripper().RoundTrip(out)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// exchange sends a request under its child key.
func (s *service) exchange(req *http.Request, n callName) (*http.Response, error) {
	var d delivery
	defer func() {
		if d.call != nil {
			d.close()
		}
	}()
	ctx := req.Context()
	var note callNotes
	resp, failed := s.client.Exchange(req, func(call *retry.Call) error {
		out, err := s.adopt(ctx, call, n)
		if err != nil {
			call.Resumed = req.Response != nil // a refusal is said of this run alone, with its redirects
			return err
		}
		note = out.noteIn(ctx)
		began, err := out.begin(ctx, call)
		if err != nil {
			call.Resumed = call.Resumed || req.Response != nil
			return err
		}
		d = began
		return nil
	})
	var err error
	outcome := retry.Completed
	if failed != nil {
		err, outcome = failed, failed.Outcome
	}
	if d.call != nil {
		d.outcome = outcome
	}
	note.end(nil, outcome, err)
	if resp == nil {
		return nil, err
	}
	return resp, nil
}

// adopt makes the call that was read from a request one of the service's: it derives the key
// and adds the headers.
func (s *service) adopt(ctx context.Context, call *retry.Call, n callName) (*outgoing, error) {
	call.Service, call.Operation = s.name, n.operation
	child, err := s.deriveChild(ctx, Request{
		Service: s.name, Operation: n.operation, Discriminators: n.discriminators,
		Method: n.method, Path: n.target, ContentType: call.Header.Get("Content-Type"),
		Body: call.Body, Stream: call.Stream, Cancels: call.Cancels,
	})
	if err != nil {
		return nil, err
	}
	in, _ := wire.FromContext(ctx)
	firstRun := false
	if call.FirstSent.IsZero() {
		call.FirstSent, firstRun = s.sentSince(in.FirstSent, call.Cancels, in), !in.Rerun && !call.Resumed
	}
	call.Key, call.Resumed = child.key, call.Resumed || in.Rerun
	if call.Header, err = s.headerOf(ctx, call.Header, nil); err != nil {
		return nil, err
	}
	name := branchName(s.name, n.operation, n.discriminators)
	return &outgoing{service: s, child: child, name: name, firstRun: firstRun, call: *call}, nil
}

// headerOf returns the header of a request. It adds the service's headers that the request
// does not have, and the headers that hook sets; a nil hook sets none.
func (s *service) headerOf(ctx context.Context, given http.Header, hook func(context.Context, http.Header) error) (http.Header, error) {
	header := s.header.Clone()
	for name := range given {
		header.Del(name) // in whatever spelling
	}
	maps.Copy(header, given.Clone())
	return header, addHeaders(ctx, header, hook, s.profile)
}

// addHeaders lets hook set headers, and refuses those that it must not set.
func addHeaders(ctx context.Context, header http.Header, hook func(context.Context, http.Header) error, profile *retry.Profile) error {
	if hook == nil {
		return nil
	}
	before := header.Clone()
	if err := hook(ctx, header); err != nil {
		return fmt.Errorf("%w: %w", ErrHeaderFunc, err)
	}
	changed := make(http.Header)
	for name, values := range header {
		if !slices.Equal(values, before[name]) {
			changed[name] = values
		}
	}
	return checkHeader(changed, profile)
}

// serves reports whether u leads to the service, and returns the path behind the service's.
func (s *service) serves(u *url.URL) (path string, ok bool) {
	if !strings.EqualFold(u.Scheme+"://"+u.Host, s.origin) {
		return "", false
	}
	path, ok = strings.CutPrefix(u.EscapedPath(), strings.TrimPrefix(s.prefix, s.origin))
	switch {
	case !ok || path != "" && path[0] != '/':
		return "", false
	case path == "":
		path = "/"
	}
	return path, true
}

// A callName is the name of the call that a request through [Client.RoundTripper] makes.
type callName struct {
	operation      string // "": it gets no key
	discriminators []string
	method         string // of the first request, from which redirects led here
	target         string // of that one too: host, path and query
	elsewhere      bool   // a redirect led to another origin
}

// nameOf names the call that req makes. A redirect is the call of the request that it was
// the answer to.
func (s *service) nameOf(req *http.Request) (callName, error) {
	if req.URL == nil {
		return callName{}, fmt.Errorf("%w: a request without URL", ErrRequest)
	}
	first := req
	for first.Response != nil && first.Response.Request != nil && first.Response.Request.URL != nil {
		first = first.Response.Request
	}
	_, here := s.serves(req.URL)
	path, served := s.serves(first.URL)
	switch {
	case req.URL.Opaque != "" || first.URL.Opaque != "":
		return callName{}, fmt.Errorf("%w: the URL is opaque, and does not show the path", ErrRequest)
	case !served:
		return callName{}, fmt.Errorf("%w: the URL leads to %q, not to the service", ErrRequest, first.URL.Host)
	case isSafe(req.Method) || req.Method == "":
		return callName{elsewhere: !here}, nil
	}
	n, err := s.operationOf(first, path)
	switch {
	case err != nil || n.operation == "":
		n.elsewhere = !here
		return n, err
	case !here:
		return n, fmt.Errorf("%w: a redirect leads away from the service, to %q", ErrRequest, req.URL.Host)
	case streams(req.Header.Get("Content-Type")):
		return n, fmt.Errorf("%w: a stream cannot have a key; give it no operation to send it without", ErrRequest)
	}
	return n, nil
}

// operationOf names the first request of a call.
func (s *service) operationOf(first *http.Request, path string) (callName, error) {
	n := callName{method: first.Method, target: cmp.Or(first.Host, first.URL.Host) + first.URL.RequestURI()}
	if s.operation != nil {
		probe := *first
		probe.Body = nil // it is the call's
		var err error
		n.operation, n.discriminators, err = s.operation(&probe)
		return n, err
	}
	n.discriminators = []string{shorten(path)}
	if s.templates == nil {
		n.operation = first.Method
		return n, nil
	}
	u, err := url.Parse(path)
	if err != nil {
		return n, fmt.Errorf("%w: path %q: %w", ErrRequest, path, err)
	}
	_, template := s.templates.Handler(&http.Request{Method: first.Method, URL: u})
	if template == "" {
		return n, fmt.Errorf("%w: no template for %s %q", ErrRequest, first.Method, path)
	}
	n.operation = operationName(first.Method, template)
	return n, nil
}

// shorten returns a path as a discriminator: as it is, or its hash if it is too long for one. No path is equal to a hash,
// because paths begin with a slash.
func shorten(path string) string {
	if len(path) <= childkey.MaxDiscriminatorBytes {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// operationName returns the name of an operation with this template: its method and its
// path. Wildcards keep their names, and "-" replaces each character that no name has.
func operationName(method, template string) string {
	_, path, found := strings.Cut(template, " ")
	if !found {
		path = template
	}
	return method + strings.Map(func(c rune) rune {
		switch {
		case strings.ContainsRune("{}$", c):
			return -1
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._/-", c):
			return c
		}
		return '-'
	}, strings.ReplaceAll(path, "...}", "}"))
}

// newTemplates returns what finds the template of a request; nil if there are none.
func newTemplates(templates []string) (mux *http.ServeMux, err error) {
	if len(templates) == 0 {
		return nil, nil
	}
	mux = http.NewServeMux()
	for _, template := range templates {
		method, path, found := strings.Cut(template, " ")
		if !found {
			method, path = "POST", template // any: the longest that people use
		}
		path = strings.TrimLeft(path, " \t")
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%q: the path does not start with /", template)
		}
		if err := childkey.CheckName(operationName(method, path)); err != nil {
			return nil, fmt.Errorf("%q: %w", template, err)
		}
		if err := register(mux, template); err != nil {
			return nil, fmt.Errorf("%q: %w", template, err)
		}
	}
	return mux, nil
}

// register returns as an error what ServeMux panics with.
func register(mux *http.ServeMux, template string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New(fmt.Sprint(p))
		}
	}()
	mux.Handle(template, http.NotFoundHandler())
	return nil
}

// streams reports whether a body of that media type is a stream of messages: gRPC's, and
// connect's of calls that are not unary.
func streams(contentType string) bool {
	contentType = strings.ToLower(contentType)
	return strings.HasPrefix(contentType, "application/grpc") || strings.HasPrefix(contentType, "application/connect+")
}
