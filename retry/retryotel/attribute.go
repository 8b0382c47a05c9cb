package retryotel

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/retry"
)

// The attributes of spans and metrics. Those without "fanonce" are of the semantic conventions, version 1.45.0. The Go
// packages of the conventions do not have that version yet.
const (
	attrService   = attribute.Key("fanonce.service")
	attrOperation = attribute.Key("fanonce.operation")
	attrDigest    = attribute.Key("fanonce.key.digest")
	attrOutcome   = attribute.Key("fanonce.outcome")
	attrReplayed  = attribute.Key("fanonce.replayed")
	attrAttempt   = attribute.Key("fanonce.attempt")
	attrAttempts  = attribute.Key("fanonce.attempts")
	attrAddress   = attribute.Key("server.address")
	attrPort      = attribute.Key("server.port")
	attrURL       = attribute.Key("url.full")
	attrMethod    = attribute.Key("http.request.method")
	attrResend    = attribute.Key("http.request.resend_count")
	attrStatus    = attribute.Key("http.response.status_code")
	attrSystem    = attribute.Key("rpc.system.name")
	attrRPCMethod = attribute.Key("rpc.method")
	attrRPCStatus = attribute.Key("rpc.status_code")
	attrError     = attribute.Key("error.type")
)

// systemGRPC is the system of a [retry.Target] whose codes are gRPC's.
const systemGRPC = "grpc"

// startOf returns the attributes that the span of an attempt begins with. A sampler sees no later ones.
func startOf(e *retry.Event) []trace.SpanStartOption {
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, attrService.String(e.Service), attrOperation.String(e.Operation), attrAttempt.Int(e.Number))
	to := &e.Target
	if to.Address != "" {
		attrs = append(attrs, attrAddress.String(to.Address))
	}
	if to.Port != 0 {
		attrs = append(attrs, attrPort.Int(to.Port))
	}
	switch {
	case to.System != "":
		attrs = append(attrs, attrSystem.String(to.System), attrRPCMethod.String(to.Method))
	case to.Method != "":
		attrs = append(attrs, attrMethod.String(knownMethod(to.Method)), attrURL.String(to.URL))
		if e.Number > 1 {
			attrs = append(attrs, attrResend.Int(e.Number-1))
		}
	}
	return []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...)}
}

// knownMethod returns a method of HTTP as the conventions have it: any other method would be one more value.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, http.MethodConnect, "QUERY":
		return method
	default:
		return "_OTHER"
	}
}

// statusOf returns the status that a call or an attempt ended with: none, or that of HTTP or of the RPC system. The HTTP
// status of a call over an RPC system is made up, and is not shown.
func statusOf(e *retry.Event) []attribute.KeyValue {
	switch rpc := rpcStatus(e); {
	case rpc != "":
		return []attribute.KeyValue{attrRPCStatus.String(rpc)}
	case e.Target.System == "" && e.Status != 0:
		return []attribute.KeyValue{attrStatus.Int(e.Status)}
	default:
		return nil
	}
}

// rpcStatus returns the status of an RPC, which gRPC's conventions also want of a call that the client ended; "" over HTTP.
func rpcStatus(e *retry.Event) string {
	switch {
	case e.RPCStatus != "" || e.Target.System != systemGRPC:
		return e.RPCStatus
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "DEADLINE_EXCEEDED"
	case errors.Is(e.Err, context.Canceled):
		return "CANCELLED"
	default:
		return ""
	}
}

// errorType is the kind of an error, with few values: the problem code, else the status, else the kind of the error.
func errorType(e *retry.Event) string {
	switch {
	case e.Code != "":
		return string(e.Code)
	case e.RPCStatus != "":
		return e.RPCStatus
	case e.Status != 0:
		return strconv.Itoa(e.Status)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(e.Err, context.Canceled):
		return "canceled"
	default:
		return "connection"
	}
}
