package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/retry"
)

func overheadConditions(e effort) string {
	return fmt.Sprintf("POST of 256 bytes, answered at once with 64 by a stub in place of the network. The calls of package retry have a key and"+
		" a deadline, the others have not, unless said. Medians of %d rounds in which each client calls for %v, and their range."+
		" The stub asks of the request's context what net/http's transport does; that of the last lines asks nothing.", e.rounds, e.turn)
}

const (
	stubHost     = "callee.test"
	stubURL      = "http://" + stubHost + "/effects"
	requestBytes = 256
	answerText   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// stubTransport answers at once; its own part is the same for everybody.
type stubTransport struct {
	asks bool // of the request's context, what net/http's transport does
}

func (s stubTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.asks {
		if err := ask(req.Context()); err != nil {
			return nil, err
		}
	}
	_, _ = io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(answerText)), Request: req,
		Body: io.NopCloser(strings.NewReader(answerText)),
	}, nil
}

// ask looks for a trace, derives a context that ends with the request, and looks
// whether it has ended: what net/http's transport does before it does anything else.
func ask(ctx context.Context) error {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		trace.GetConn(stubHost)
		trace.GotConn(httptrace.GotConnInfo{})
		trace.WroteHeaders()
	}
	derived, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	select {
	case <-derived.Done():
		return context.Cause(derived)
	default:
		return nil
	}
}

// The names that ratios refer to.
const (
	namePlain       = "net/http"
	nameRetryableDo = "go-retryablehttp, Do"
	nameFailsafe    = "failsafehttp"
	nameFailsafeEnd = "failsafehttp, ctx with a deadline"
)

// The operations that have goals: the others of ours make an *http.Request and
// its answer of the same call, besides. The second ends by the same ctx as failsafehttp's.
const (
	nameSend    = "retry, Client.Send"
	nameSendEnd = "retry, Client.Send, ctx with a deadline"
)

// overheadOperations makes the same call through each client over the stub.
func overheadOperations(ctx context.Context, stub stubTransport) ([]operation, error) {
	body := bytes.Repeat([]byte("x"), requestBytes)
	others := otherOverhead(ctx, stub, body)
	ours, err := ourOverhead(ctx, stub, body)
	return append(others, ours...), err
}

func otherOverhead(ctx context.Context, stub stubTransport, body []byte) []operation {
	plain := &http.Client{Transport: stub}
	retryable := retryablehttp.NewClient()
	retryable.Logger, retryable.HTTPClient = nil, &http.Client{Transport: stub}
	standard := retryable.StandardClient()
	policy := failsafehttp.NewRetryPolicyBuilder().Build() //nolint:bodyclose // a policy for answers is no answer
	failsafe := &http.Client{Transport: failsafehttp.NewRoundTripper(stub, policy)}
	return []operation{
		{namePlain, func() error { return doPlain(ctx, plain, body) }},
		{nameRetryableDo, func() error {
			req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, stubURL, body)
			if err != nil {
				return err
			}
			return discard(retryable.Do(req))
		}},
		{"go-retryablehttp, StandardClient", func() error { return doPlain(ctx, standard, body) }},
		{nameFailsafe, func() error { return doPlain(ctx, failsafe, body) }},
		{nameFailsafeEnd, func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return doPlain(ctx, failsafe, body)
		}},
	}
}

func ourOverhead(ctx context.Context, stub stubTransport, body []byte) ([]operation, error) {
	client, err := retry.New(retry.Config{Transport: stub, Profile: retry.Unguarded()})
	if err != nil {
		return nil, err
	}
	standard := &http.Client{Transport: client.RoundTripper()}
	key, err := childkey.New()
	if err != nil {
		return nil, err
	}
	call := retry.Call{
		Method: http.MethodPost, URL: stubURL, Body: body, Key: key,
		Service: "callee", Operation: "effect",
	}
	do := func(send func(*http.Request) (*http.Response, error)) func() error {
		return func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set(wire.HeaderKey, key.String())
			return discard(send(req))
		}
	}
	return []operation{
		{nameSend, func() error {
			_, err := client.Send(ctx, call)
			return err
		}},
		{nameSendEnd, func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := client.Send(ctx, call)
			return err
		}},
		{"retry, Client.Do", do(client.Do)},
		{"retry, RoundTripper", do(standard.Do)},
	}, nil
}

func doPlain(ctx context.Context, client *http.Client, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return discard(client.Do(req))
}

// discard reads and closes the answer that a client returned.
func discard(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}

func measureOverhead(ctx context.Context, e effort) ([]figure, error) {
	figures, err := overheadFigures(ctx, e, stubTransport{asks: true})
	if err != nil {
		return nil, err
	}
	mute, err := overheadFigures(ctx, e, stubTransport{})
	for i := range mute {
		mute[i].Name += "; a stub that asks nothing"
		for j := range mute[i].Measures {
			mute[i].Measures[j].Goal = nil // no call over a network is like it
		}
	}
	return append(figures, mute...), err
}

func overheadFigures(ctx context.Context, e effort, stub stubTransport) ([]figure, error) {
	operations, err := overheadOperations(ctx, stub)
	if err != nil {
		return nil, err
	}
	all, err := contest(e.rounds, e.turn, 1, operations)
	if err != nil {
		return nil, err
	}
	retryable, failsafe := all[nameRetryableDo], all[nameFailsafeEnd]
	var figures []figure
	for _, op := range operations {
		s := all[op.name]
		f := figure{Name: op.name, Measures: []measure{
			s.time().Measure("time", "ns", nil),
			{Name: "allocations", Value: s.allocs()},
		}}
		if op.name == nameSend {
			f.Measures[1].Goal = benchkit.AtMost(retryable.allocs() + 26)
			f.Measures = append(f.Measures, s.times("go-retryablehttp's Do", retryable, benchkit.AtMost(3))...)
		}
		if op.name == nameSend || op.name == nameSendEnd {
			f.Measures = append(f.Measures, s.times("failsafehttp's with a deadline", failsafe, nil)...)
			f.Measures = append(f.Measures,
				measure{Name: "allocations by failsafehttp's with a deadline", Value: s.allocs() / failsafe.allocs(), Unit: "x"})
		}
		figures = append(figures, f)
	}
	return figures, nil
}
