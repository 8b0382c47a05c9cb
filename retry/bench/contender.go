package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A message is one POST, to be sent as often as it takes.
type message struct {
	url  string
	body []byte
	key  string // "": none
}

// A reply is what the caller is told in the end.
type reply struct {
	status  int // 0: it learns of none
	err     error
	outcome retry.Outcome // as package retry labels it; of others only Completed, for 2xx
}

// A sender makes one call.
type sender func(context.Context, message) reply

// A tuning is what a bench changes of the contenders' defaults.
type tuning struct {
	transport http.RoundTripper
	// wait and longest are the backoff, doubled in between; zero keeps the
	// contender's own.
	wait, longest time.Duration
	attempts      int           // zero: the contender's own
	perAttempt    time.Duration // timeout of one; zero: none, or the contender's own
	unlimited     bool          // package retry's budget is out of the way
}

// A contender is a way to make calls.
type contender struct {
	name string
	make func(tuning) (sender, error)
}

// The contenders. Of the two models there is no client for plain HTTP.
var (
	noRetries         = contender{"no retries", plainSender}
	retryable         = contender{"go-retryablehttp", retryableSender}
	failsafePlain     = contender{"failsafehttp", failsafeSender}
	failsafeBudget    = contender{"failsafehttp, with its budget", failsafeBudgetSender}
	awsQuotaModel     = contender{"model of the AWS SDK's quota", awsSender}
	grpcThrottleModel = contender{"model of gRPC's throttle", grpcSender}
	ours              = contender{"retry", ourSender}
)

func plainSender(t tuning) (sender, error) {
	client := &http.Client{Transport: t.transport, Timeout: t.perAttempt}
	return standardSender(client.Do), nil
}

func retryableSender(t tuning) (sender, error) {
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.HTTPClient = &http.Client{Transport: t.transport, Timeout: t.perAttempt}
	if t.wait > 0 {
		client.RetryWaitMin, client.RetryWaitMax = t.wait, t.longest
	}
	if t.attempts > 0 {
		client.RetryMax = t.attempts - 1
	}
	return standardSender(func(req *http.Request) (*http.Response, error) {
		wrapped, err := retryablehttp.FromRequest(req)
		if err != nil {
			return nil, err
		}
		return client.Do(wrapped)
	}), nil
}

func failsafeSender(t tuning) (sender, error) { return newFailsafe(t, nil), nil }

func failsafeBudgetSender(t tuning) (sender, error) { return newFailsafe(t, budget.New()), nil }

//nolint:bodyclose // policies for answers are no answers
func newFailsafe(t tuning, limit budget.Budget) sender {
	builder := failsafehttp.NewRetryPolicyBuilder()
	if t.wait > 0 {
		builder = builder.WithBackoff(t.wait, t.longest)
	}
	if t.attempts > 0 {
		builder = builder.WithMaxAttempts(t.attempts)
	}
	if limit != nil {
		builder = builder.WithBudget(limit)
	}
	policies := []failsafe.Policy[*http.Response]{builder.Build()}
	if t.perAttempt > 0 {
		policies = append(policies, timeout.New[*http.Response](t.perAttempt))
	}
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(t.transport, policies...)}
	return standardSender(client.Do)
}

// standardSender makes calls by a client of net/http's form.
func standardSender(do func(*http.Request) (*http.Response, error)) sender {
	return func(ctx context.Context, m message) reply {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(m.body))
		if err != nil {
			return reply{err: err}
		}
		if m.key != "" {
			req.Header.Set(wire.HeaderKey, m.key)
		}
		resp, err := do(req)
		if err != nil {
			return reply{err: err}
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		r := reply{status: resp.StatusCode, err: err}
		if err == nil && resp.StatusCode/100 == 2 {
			r.outcome = retry.Completed
		}
		return r
	}
}

func ourSender(t tuning) (sender, error) {
	limit := new(retry.Budget)
	if t.unlimited {
		limit = &retry.Budget{Reserve: math.Inf(1)}
	}
	client, err := retry.New(retry.Config{
		Transport: t.transport, MaxAttempts: t.attempts, AttemptTimeout: t.perAttempt,
		Backoff: retry.Backoff{Base: t.wait, Cap: t.longest},
		Poll:    retry.Backoff{Base: t.wait, Cap: t.longest},
		Budget:  limit,
		Profile: retry.Unguarded(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, m message) reply {
		call := retry.Call{Method: http.MethodPost, URL: m.url, Body: m.body, Service: "callee", Operation: "effect"}
		if m.key != "" {
			key, err := childkey.Parse(m.key)
			if err != nil {
				return reply{err: err}
			}
			call.Key = key
		}
		return ourReply(client.Send(ctx, call))
	}, nil
}

func ourReply(resp *retry.Response, err error) reply {
	var failed *retry.Error
	switch {
	case err == nil:
		return reply{status: resp.Status, outcome: retry.Completed}
	case errors.As(err, &failed):
		return reply{status: failed.Status, err: err, outcome: failed.Outcome}
	default:
		return reply{err: err}
	}
}

// isSuccess reports whether the caller has a complete 2xx answer.
func (r reply) isSuccess() bool { return r.err == nil && r.status/100 == 2 }
