package sdkgrpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A transport is where package retry sends the attempts of a call, each as an HTTP request. It makes
// each of them one gRPC call, and the end of that an HTTP answer. So the keys, the attempts and the
// outcomes of package sdk serve gRPC unchanged.
type transport struct {
	conn  grpc.ClientConnInterface // nil: the interceptors bring theirs
	plain http.RoundTripper        // of a service over connect, for the calls of operations; nil: they go over conn

	guarded bool // by its profile, the service marks its answers
}

// An invocation makes one attempt of a call. header has the metadata that package sdk adds.
//
// The answer's status is nil for OK. An error says that there is none: the call did not end with
// a status of the callee's.
type invocation interface {
	invoke(ctx context.Context, header http.Header) (answer, error)
	target() retry.Target // without the Method
}

// An answer is the end of an attempt.
type answer struct {
	status  *spb.Status // nil: OK
	header  http.Header // with the trailer
	body    []byte      // the message, where nobody else has it
	notSent bool

	maker   maker // of the status
	guarded bool  // the service has a guard, which marks answers
}

// A maker is who made a status, as far as the attempt shows it.
type maker int

const (
	peer        maker = iota // the other end: the handler, its guard, its library, or a proxy
	library                  // perhaps the library of either side, because the answer is too long or the stream was reset
	interceptor              // one of the client: the call ended with another code
	overOK                   // one of the client, and the call ended with OK
	unseen                   // nobody saw how the call ended
)

// A markedInvocation is an invocation in a ctx. Code that runs under that ctx, such as a HeaderFunc, may make calls of its
// own: only the requests with its mark are attempts of the invocation.
type markedInvocation struct {
	invocation invocation
	mark       string
}

type markedKey struct{}

// headerMark carries the mark of a request. It is never sent.
const headerMark = "Sdkgrpc-Call"

var marks atomic.Uint64

// with returns ctx, in which v makes the attempts of the requests with the mark.
func with(ctx context.Context, v invocation) (marking context.Context, mark string) {
	mark = strconv.FormatUint(marks.Add(1), 36)
	return context.WithValue(ctx, markedKey{}, markedInvocation{v, mark}), mark
}

// invocationOf returns what makes the attempts that req is one of; nil if nothing does.
func invocationOf(req *http.Request) invocation {
	m, _ := req.Context().Value(markedKey{}).(markedInvocation)
	if mark := req.Header[headerMark]; len(mark) != 1 || mark[0] != m.mark {
		return nil
	}
	return m.invocation
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	v := invocationOf(req)
	if v == nil && t.plain != nil {
		resp, err := t.plain.RoundTrip(req)
		if resp != nil {
			for _, name := range made {
				resp.Header.Del(name)
			}
		}
		return resp, err
	}
	body, err := readAll(req)
	if err != nil {
		return nil, err
	}
	if v == nil {
		if t.conn == nil {
			return nil, fmt.Errorf("%w: the Service has no conn, and the call comes through no interceptor", ErrConfig)
		}
		v = &raw{conn: t.conn, method: req.URL.Path, body: body}
	}
	a, err := v.invoke(req.Context(), req.Header)
	if err != nil {
		return nil, err
	}
	a.guarded = t.guarded
	return a.response(req), nil
}

func readAll(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close() // it was read to its end
	return body, err
}

// response returns the answer as one over HTTP.
func (a *answer) response(req *http.Request) *http.Response {
	resp := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2, Header: a.header, Request: req,
	}
	body := a.body
	if a.status != nil {
		resp.StatusCode, body = a.refusal(resp.Header)
	}
	resp.Status = http.StatusText(resp.StatusCode)
	resp.ContentLength = int64(len(body))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// A raw is an invocation of a message that is encoded already.
type raw struct {
	conn   grpc.ClientConnInterface
	method string
	body   []byte
}

func (r *raw) invoke(ctx context.Context, header http.Header) (answer, error) {
	var out []byte
	a, err := overGRPC(ctx, r.method, header, func(ctx context.Context, opts ...grpc.CallOption) error {
		return r.conn.Invoke(ctx, r.method, &r.body, &out, append(opts, grpc.ForceCodec(rawCodec{}))...)
	})
	a.body = out
	return a, err
}

// overGRPC makes one attempt with grpc-go. method is that of an operation; "" for a generated client's call.
func overGRPC(ctx context.Context, method string, header http.Header, call func(context.Context, ...grpc.CallOption) error) (answer, error) {
	e := &evidence{method: method, trace: httptrace.ContextClientTrace(ctx)}
	e.begin()
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	for _, name := range ours {
		md.Delete(name) // a service that forwards what it got must not forward its own key
	}
	if md == nil {
		md = make(metadata.MD)
	}
	maps.Copy(md, outgoing(header))
	out := metadata.NewOutgoingContext(context.WithValue(ctx, evidenceKey{}, e), md)
	var head, trail metadata.MD
	err := call(out, grpc.Header(&head), grpc.Trailer(&trail))
	e.end()
	a := answer{header: incoming(head, trail), notSent: !e.sent.Load()}
	if err == nil {
		return a, nil
	}
	s := status.Convert(err)
	if ended := ctx.Err(); ended != nil && (s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled) {
		return answer{}, context.Cause(ctx) // package retry knows whose time it was
	}
	a.status = s.Proto()
	unanswered := len(head) == 0 && len(trail) == 0
	switch ended := e.ended.Load(); {
	case ended == 0:
		a.maker = unseen
	case !e.whole.Load(): // no handler runs without the message, so the status is as good as the callee's
		a.notSent = a.notSent || s.Code() == codes.ResourceExhausted && unanswered // it is longer than the client may send
	case codes.Code(ended-1) == codes.OK:
		a.maker = overOK
	case codes.Code(ended-1) != s.Code():
		a.maker = interceptor
	case len(head) > 0, unanswered: // a refusal is trailers alone
		a.maker = library
	}
	return a, nil
}

// framing are the headers of the HTTP request that stands for the call.
var framing = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Length": true, "Content-Type": true, "Host": true, "Te": true,
	"Transfer-Encoding": true, "User-Agent": true, headerMark: true, headerStatus: true, headerNotSent: true, headerMaker: true,
}

// ours are the headers that only package sdk sets.
var ours = append(retry.Fanonce().Headers, wire.HeaderKey)

// outgoing returns the metadata that a request's header is.
func outgoing(header http.Header) metadata.MD {
	md := make(metadata.MD, len(header))
	for name, values := range header {
		if !framing[name] {
			md[strings.ToLower(name)] = values
		}
	}
	return md
}

// incoming returns metadata as the header of an answer.
func incoming(all ...map[string][]string) http.Header {
	header := make(http.Header)
	for _, md := range all {
		for name, values := range md {
			if name = http.CanonicalHeaderKey(name); !strings.HasSuffix(name, "-Bin") && !framing[name] {
				header[name] = append(header[name], values...)
			}
		}
	}
	return header
}

// rawCodec passes bytes on.
type rawCodec struct{}

// Marshal implements encoding.Codec.
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

// Unmarshal implements encoding.Codec.
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// Name implements encoding.Codec: the bytes are a message of protobuf.
func (rawCodec) Name() string { return "proto" }
