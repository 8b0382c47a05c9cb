package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// A named is what a request through [Client.RoundTripper] is called.
type named struct {
	operation      string // "": it gets no key
	discriminators []string
	method         string // of the first request, from which redirects led here
	target         string // of that one too: host, path and query
	elsewhere      bool   // a redirect led to another origin
}

// nameOf names the call that req makes. A redirect is the call of the request that it was
// the answer to.
func (s *service) nameOf(req *http.Request) (named, error) {
	if req.URL == nil {
		return named{}, fmt.Errorf("%w: a request without URL", ErrRequest)
	}
	first := req
	for first.Response != nil && first.Response.Request != nil && first.Response.Request.URL != nil {
		first = first.Response.Request
	}
	_, here := s.serves(req.URL)
	path, served := s.serves(first.URL)
	switch {
	case req.URL.Opaque != "" || first.URL.Opaque != "":
		return named{}, fmt.Errorf("%w: its URL is opaque, and does not show the path", ErrRequest)
	case !served:
		return named{}, fmt.Errorf("%w: it leads to %q, not to the service", ErrRequest, first.URL.Host)
	case safe(req.Method) || req.Method == "":
		return named{elsewhere: !here}, nil
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
func (s *service) operationOf(first *http.Request, path string) (named, error) {
	n := named{method: first.Method, target: cmp.Or(first.Host, first.URL.Host) + first.URL.RequestURI()}
	if s.operation != nil {
		probe := *first
		probe.Body = nil // it is the call's
		var err error
		n.operation, n.discriminators, err = s.operation(&probe)
		return n, err
	}
	n.discriminators = []string{path}
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
