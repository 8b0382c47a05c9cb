package sdk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// A CallOption says more about one call. Any function that sets fields of its Request is one.
type CallOption func(*Request)

// Header adds a header to the call. The key and the payload do not depend on it.
func Header(name, value string) CallOption {
	return func(r *Request) {
		if r.Header == nil {
			r.Header = make(http.Header)
		}
		r.Header[name] = append(r.Header[name], value)
	}
}

// FirstSent sets [Request.FirstSent].
func FirstSent(t time.Time) CallOption { return func(r *Request) { r.FirstSent = t } }

// Resumed sets [Request.Resumed].
func Resumed() CallOption { return func(r *Request) { r.Resumed = true } }

// Limits sets [Request.Limits].
func Limits(l retry.Limits) CallOption { return func(r *Request) { r.Limits = l } }

// Call calls op with in, under the child key of the parent key that ctx
// carries, and blocks until it is done. The input is encoded once; every
// attempt, and every later Call under the same parent key, sends the same key
// and the same bytes.
//
// The error is a [*retry.Error]. If the operation's codec cannot read a 2xx answer as an
// Out, the Outcome is Completed and the error wraps contract.ErrBody. The effect happened:
// do not undo it because the answer is missing. Two calls of one operation under one parent
// need op.For: with the same input the second is a repetition of the first, with another it
// is refused with childkey.ErrDuplicateChild.
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

// composeOp composes the call of op, which knows how it is undone.
func composeOp[In, Out any](ctx context.Context, c *Client, op contract.Operation[In, Out], in In, options []CallOption) (*outgoing, error) {
	var body []byte
	path, err := op.Path()
	if err == nil {
		body, err = op.Encode(in)
	}
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
	out, err := c.compose(ctx, req)
	if err != nil {
		return nil, err
	}
	out.undo = undoOf(op)
	return out, nil
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

// ChildKey returns the key that a call of operation on service has under
// parent, in the form of the service's [retry.Profile]. It errs with [ErrNoService],
// or as childkey.Derive does. It sends and remembers nothing.
func (c *Client) ChildKey(parent childkey.Key, service, operation string, discriminators ...string) (childkey.Key, error) {
	s, err := c.service(service)
	if err != nil {
		return childkey.Key{}, err
	}
	return s.profile.Derive(parent, service, operation, discriminators...)
}

// KeyOf returns the key that [Call] of op has under the parent key that ctx
// carries: what an undo names as the forward key. Its errors are those of
// [Client.ChildKey], contract.ErrInvalid and [ErrNoParent].
func KeyOf[In, Out any](ctx context.Context, c *Client, op contract.Operation[In, Out]) (childkey.Key, error) {
	if err := op.Err(); err != nil {
		return childkey.Key{}, err
	}
	parent, ok := childkey.FromContext(ctx)
	if !ok {
		return childkey.Key{}, ErrNoParent
	}
	return c.ChildKey(parent, op.Service(), op.Name(), op.Discriminators()...)
}

// A child is the key of a call, and the family in which it was derived. The zero child is that of a read.
type child struct {
	family *childkey.Family
	key    childkey.Key
}

// deriveChild derives the key of req in the family that ctx carries. The family refuses a key
// that it knows for another payload. A read, by a safe method, has no key and no family: it may be made again, as often
// and as differently as anybody likes.
func (s *service) deriveChild(ctx context.Context, req Request) (child, error) {
	if isSafe(req.Method) {
		return child{}, cmp.Or(childkey.CheckName(req.Operation), refuseUndo(req))
	}
	family := childkey.FamilyFromContext(ctx)
	if family == nil {
		return child{}, ErrNoParent
	}
	key, err := s.profile.Derive(family.Parent(), req.Service, req.Operation, req.Discriminators...)
	if err != nil {
		return child{}, err
	}
	if err := family.Use(key, payload(req)); err != nil {
		return child{}, fmt.Errorf("%w: %s %s", err, req.Service, req.Operation)
	}
	return child{family, key}, nil
}

// refuseUndo returns an error for a read that is to undo a call.
func refuseUndo(req Request) error {
	if req.Cancels.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %s asks for no effect, and cannot undo a call", ErrRequest, req.Method)
}

// payload digests what makes a callee take a call for another one. Headers are
// no part of it: a token may be another one in the next run.
func payload(req Request) [32]byte {
	var room [512]byte // most calls' need no more
	b := room[:0]
	for _, part := range [...]string{req.Method, req.Path, req.ContentType, req.Cancels.String()} {
		b = appendPart(b, part)
	}
	if !req.Cancels.IsZero() { // its body says what is known of the forward call, which may be more in the next run
		return sha256.Sum256(b)
	}
	if req.Stream != nil {
		sum := req.Stream.Sum()
		return sha256.Sum256(appendPart(b, sum[:]))
	}
	return sha256.Sum256(appendPart(b, req.Body))
}

func appendPart[T string | []byte](b []byte, part T) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
	return append(b, part...)
}
