package sdk

import (
	"context"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// A CallOption says more about one call.
type CallOption func(*Request)

// Header adds a header to the call. It is no part of the key or of the payload.
func Header(name, value string) CallOption {
	return func(r *Request) {
		if r.Header == nil {
			r.Header = make(http.Header)
		}
		r.Header[name] = append(r.Header[name], value)
	}
}

// Cancels makes the call an undo of the call with the key forward, which
// [KeyOf] returns; see [Request.Cancels].
func Cancels(forward childkey.Key) CallOption { return func(r *Request) { r.Cancels = forward } }

// FirstSent sets [Request.FirstSent].
func FirstSent(t time.Time) CallOption { return func(r *Request) { r.FirstSent = t } }

// Resumed sets [Request.Resumed].
func Resumed() CallOption { return func(r *Request) { r.Resumed = true } }

// Call calls op with in, under the child key of the parent key that ctx
// carries, and blocks until it is done. The input is encoded once; every
// attempt, and every later Call under the same parent key, sends the same key
// and the same bytes.
//
// The error is a [*retry.Error]. If an answer of 2xx is not an Out, as the
// operation's codec reads it, its Outcome is Completed and it wraps
// contract.ErrBody: the effect happened, do not undo it for want of an answer.
// Two calls of one operation under one parent need op.For: with the same input
// the second is a repetition of the first, with another it is refused with
// childkey.ErrDuplicateChild.
func Call[In, Out any](ctx context.Context, c *Client, op contract.Operation[In, Out], in In, options ...CallOption) (Out, error) {
	var none Out
	out, err := composeOp(ctx, c, op, in, options)
	if err != nil {
		return none, err
	}
	resp, err := out.deliver(ctx)
	if err != nil {
		return none, err
	}
	return decode[Out](op.Codec(), out, resp)
}

func composeOp[In, Out any](ctx context.Context, c *Client, op contract.Operation[In, Out], in In, options []CallOption) (*outgoing, error) {
	path, err := op.Path()
	if err != nil {
		return nil, c.refuse(ctx, retry.Task{Service: op.Service(), Operation: op.Name()}, err)
	}
	body, err := op.Encode(in)
	if err != nil {
		return nil, c.refuse(ctx, retry.Task{Service: op.Service(), Operation: op.Name()}, err)
	}
	req := Request{
		Service: op.Service(), Operation: op.Name(), Discriminators: op.Discriminators(),
		Method: op.Method(), Path: path, Body: body, ContentType: op.Codec().ContentType(),
	}
	for _, option := range options {
		option(&req)
	}
	return c.compose(ctx, req)
}

func decode[Out any](codec contract.Codec, out *outgoing, resp *retry.Response) (Out, error) {
	var v, none Out
	if err := codec.Decode(resp.Body, &v); err != nil {
		return none, &retry.Error{
			Outcome: retry.Completed, Evidence: "a 2xx answer that is not the declared output",
			Service: out.call.Service, Operation: out.call.Operation, Key: out.call.Key,
			Attempts: resp.Attempts, Status: resp.Status, Header: resp.Header,
			Body: resp.Body[:min(len(resp.Body), 64<<10)], Err: err,
		}
	}
	return v, nil
}
