package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
)

// A gateway keeps each request until the test lets it go, and delivers it over a connection
// of its own then, whether its caller still waits or not.
type gateway struct {
	url     string
	arrived chan *delivery // each request, when it has come
	held    chan struct{}
	letGo   func()
}

// A delivery is one request that a gateway carries.
type delivery struct {
	target  string
	request *http.Request
	body    []byte
	done    chan struct{} // closed: answer is there
	answer  blackboxtest.Answer
}

// newGateway starts a gateway to the service at target.
func newGateway(t *testing.T, target string) *gateway {
	t.Helper()
	g := &gateway{arrived: make(chan *delivery, 16), held: make(chan struct{})}
	g.letGo = sync.OnceFunc(func() { close(g.held) })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it never came
		}
		d := &delivery{target: target, request: r, body: body, done: make(chan struct{})}
		g.arrived <- d
		<-g.held
		d.answer = d.deliver(context.WithoutCancel(r.Context()))
		close(d.done)
		for name, values := range d.answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(d.answer.Status)
		_, _ = io.WriteString(w, d.answer.Body) // its caller may be gone
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(g.letGo)
	g.url = srv.URL
	return g
}

// deliver sends the request as it came. Called again it delivers another copy.
func (d *delivery) deliver(ctx context.Context) blackboxtest.Answer {
	req, err := http.NewRequestWithContext(ctx, d.request.Method, d.target+d.request.URL.RequestURI(), bytes.NewReader(d.body))
	if err != nil {
		return blackboxtest.Answer{Status: http.StatusBadGateway}
	}
	req.Header = d.request.Header.Clone()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return blackboxtest.Answer{Status: http.StatusBadGateway}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return blackboxtest.Answer{Status: http.StatusBadGateway}
	}
	return blackboxtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}
