package main

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// A target is the service under test, and what it was told to offer.
type target struct {
	url         string
	path        string
	method      string
	otherPath   string
	body        string
	other       string
	refused     string
	failing     string
	slow        string
	undo        string
	undoBody    string
	opaque      string
	contentType string
	auth        [2]string // name and value; empty: the service has one caller
	otherAuth   [2]string
	ownProblems bool
	maxBody     int64
}

// requestTimeout bounds one request. It is longer than any duplicate waits.
const requestTimeout = 30 * time.Second

// maxAnswer bounds what is read of an answer.
const maxAnswer = 8 << 20

// client sends each request once. net/http repeats a request with an Idempotency-Key by itself
// if a kept connection breaks, so no connection is kept.
var client = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, Proxy: http.ProxyFromEnvironment, ExpectContinueTimeout: 5 * time.Second,
	},
	Timeout:       requestTimeout,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A request is one request of a row.
type request struct {
	method      string
	path        string
	keys        []string // the lines of Idempotency-Key
	body        string
	contentType string
	auth        [2]string
	header      map[string][]string
}

// with returns a copy with one more header, or with another value of it.
func (r request) with(name string, lines ...string) request {
	header := maps.Clone(r.header)
	if header == nil {
		header = make(map[string][]string)
	}
	header[name] = lines
	r.header = header
	return r
}

// An answer is a complete answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends r once.
func (t *target) send(ctx context.Context, r request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, t.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.auth[0] != "" {
		req.Header.Set(r.auth[0], r.auth[1])
	}
	if len(r.keys) > 0 {
		req.Header["Idempotency-Key"] = r.keys
	}
	for name, lines := range r.header {
		req.Header[name] = lines
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}
