package sdkgrpc

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The headers of an answer that say what an HTTP status cannot.
const (
	headerStatus   = "Grpc-Status"            // the number of the code
	headerNotSent  = "Grpc-Not-Sent"          // true: the call did not leave
	headerMaker    = "Grpc-Maker"             // who made the status, if not the peer
	headerPushback = "Grpc-Retry-Pushback-Ms" // gRFC A6; as it came
)

// made are those that only this package makes: in an answer that came over a network they mean nothing.
var made = []string{headerStatus, headerNotSent, headerMaker}

// A problem is a status as the body of an answer over HTTP.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code,omitempty"`
	// GRPCStatus is the google.rpc.Status, in base64.
	GRPCStatus string `json:"grpc_status"`
}

// refusal adds to header what the status says, and returns the status and the body over HTTP.
func (a *answer) refusal(header http.Header) (int, []byte) {
	end := code.Code(a.status.GetCode())
	p := problem{Title: end.String(), Status: cmp.Or(statuses[end], http.StatusInternalServerError), Detail: a.status.GetMessage()}
	header.Set(headerStatus, strconv.Itoa(int(a.status.GetCode())))
	if a.notSent {
		header.Set(headerNotSent, "true")
	}
	if by := a.madeBy(); by != peer {
		header.Set(headerMaker, strconv.Itoa(int(by)))
	}
	details(a.status, header, &p)
	data, _ := proto.Marshal(a.status) // it came as one
	p.GRPCStatus = base64.StdEncoding.EncodeToString(data)
	body, _ := json.Marshal(p) // strings and a number always encode
	header.Set("Content-Type", wire.ProblemContentType)
	return p.Status, body
}

// madeBy returns who made the status of the answer. A library says RESOURCE_EXHAUSTED as a limiter does; the mark of the
// service's guard tells them apart.
func (a *answer) madeBy() maker {
	switch {
	case a.maker != peer && a.maker != library:
		return a.maker
	case !isBare(a.status), a.maker == peer && a.guarded:
		return peer
	}
	return library
}

// isBare reports whether the status may be that of gRPC or connect for an answer that is too long, or for a stream that was
// reset. Of the codes that refuse a call they make RESOURCE_EXHAUSTED alone, and without details.
func isBare(s *spb.Status) bool {
	return s.GetCode() == int32(codes.ResourceExhausted) && len(s.GetDetails()) == 0
}

// details takes what callers act on from the details of a status. A gateway may have lost the metadata.
func details(s *spb.Status, header http.Header, p *problem) {
	for _, packed := range s.GetDetails() {
		switch packed.MessageName() {
		case "google.rpc.ErrorInfo":
			var info errdetails.ErrorInfo
			if packed.UnmarshalTo(&info) != nil {
				continue
			}
			ours, ok := wire.CodeOfReason(info.GetReason())
			switch {
			case info.GetDomain() != wire.ErrorDomain:
				p.Code = info.GetReason()
			case ok && header.Get(wire.HeaderCode) == "":
				header.Set(wire.HeaderCode, string(ours))
			}
		case "google.rpc.RetryInfo":
			var info errdetails.RetryInfo
			if packed.UnmarshalTo(&info) == nil && header.Get(wire.HeaderRetryAfterMs) == "" && info.GetRetryDelay().AsDuration() > 0 {
				wire.SetRetryAfter(header, info.GetRetryDelay().AsDuration())
			}
		default:
		}
	}
}

// statuses are the HTTP statuses that people expect for a code, as google.api.http has it. The other
// codes have 500.
var statuses = map[code.Code]int{
	code.Code_CANCELLED:           499,
	code.Code_INVALID_ARGUMENT:    http.StatusBadRequest,
	code.Code_DEADLINE_EXCEEDED:   http.StatusGatewayTimeout,
	code.Code_NOT_FOUND:           http.StatusNotFound,
	code.Code_ALREADY_EXISTS:      http.StatusConflict,
	code.Code_PERMISSION_DENIED:   http.StatusForbidden,
	code.Code_RESOURCE_EXHAUSTED:  http.StatusTooManyRequests,
	code.Code_FAILED_PRECONDITION: http.StatusBadRequest,
	code.Code_ABORTED:             http.StatusConflict,
	code.Code_OUT_OF_RANGE:        http.StatusBadRequest,
	code.Code_UNIMPLEMENTED:       http.StatusNotImplemented,
	code.Code_UNAVAILABLE:         http.StatusServiceUnavailable,
	code.Code_UNAUTHENTICATED:     http.StatusUnauthorized,
}

// classify is the Profile.Classify of a service over gRPC.
func classify(a retry.Answer) (retry.Verdict, bool) {
	number, err := strconv.ParseInt(a.Header.Get(headerStatus), 10, 32)
	if err != nil {
		return retry.Verdict{}, false
	}
	return verdict(code.Code(number).String(), a), true
}

// verdict returns the row of a code. Who made it changes the row, and so do the callee's words about the key and retries.
func verdict(name string, a retry.Answer) retry.Verdict {
	notSent := a.Header.Get(headerNotSent) == "true"
	wait, _ := wire.RetryAfter(a.Header, time.Now())
	v := retry.GRPCVerdict(name, notSent, wait, pushbackOf(a.Header.Values(headerPushback)))
	number, _ := strconv.Atoi(a.Header.Get(headerMaker))
	by := maker(number)
	again, advised := wire.ParseFlag(a.Header.Values(wire.HeaderShouldRetry)) // a guard advises with every answer but OK
	switch {
	case notSent:
		v.Outcome = retry.NotSent
	case a.Honoured && (by == overOK || by != interceptor && !advised && a.Replayed && name == "RESOURCE_EXHAUSTED"):
		v.Outcome, v.Action, v.Evidence = retry.Completed, retry.Stop, "the callee's guard has an answer, and it was refused on its way"
	case by == overOK, by == interceptor, !a.Honoured && by != peer, a.Honoured && !advised:
		v.Outcome, v.Evidence = retry.Unknown, "a status that may have been made after the callee answered"
	case !a.Honoured:
	case v.Outcome == retry.Rejected && !again && !released[name]:
		v.Proven, v.Evidence = true, "the callee's stored answer"
	case a.Replayed:
		v.Action, v.Evidence = retry.Stop, "a stored "+name // the same answer again, for ever
	}
	return v
}

// released are the codes that a guarded service does not store: they prove nothing about other
// attempts.
var released = map[string]bool{"UNAUTHENTICATED": true, "PERMISSION_DENIED": true, "RESOURCE_EXHAUSTED": true}

// pushbackOf reads gRFC A6's trailer; nil if there is none. A text that is not a number forbids retries.
func pushbackOf(values []string) *time.Duration {
	if len(values) == 0 {
		return nil
	}
	never := time.Duration(-1)
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || ms < 0 || len(values) > 1 || ms > int64(math.MaxInt64/time.Millisecond) {
		return &never
	}
	wait := time.Duration(ms) * time.Millisecond
	return &wait
}

// A connectError is the body of a unary error of connect.
type connectError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Type  string `json:"type"`
		Value string `json:"value"` // base64 without padding
	} `json:"details"`
}

// readConnect reads the body of an answer as an error of connect.
func readConnect(body []byte) (*spb.Status, bool) {
	var e connectError
	if json.Unmarshal(body, &e) != nil || e.Code == "" {
		return nil, false
	}
	name := strings.ToUpper(e.Code)
	if name == "CANCELED" { // connect's spelling
		name = "CANCELLED"
	}
	number, ok := code.Code_value[name]
	if !ok || number == 0 {
		return nil, false
	}
	s := &spb.Status{Code: number, Message: e.Message}
	for _, d := range e.Details {
		if value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "=")); err == nil {
			s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: value})
		}
	}
	return s, true
}

// classifyConnect is the Profile.Classify of a service over connect.
func (t *transport) classifyConnect(a retry.Answer) (retry.Verdict, bool) {
	if v, ok := classify(a); ok { // of an interceptor
		return v, true
	}
	s, ok := readConnect(a.Body)
	if !ok || a.Status/100 == 2 { // an error of connect is no 2xx
		return retry.Verdict{}, false // of a proxy
	}
	a.Header = a.Header.Clone()
	if by := (&answer{status: s, guarded: t.guarded}).madeBy(); by != peer {
		a.Header.Set(headerMaker, strconv.Itoa(int(by)))
	}
	details(s, a.Header, new(problem))
	if ours, ok := retry.CodeVerdict(wire.Code(a.Header.Get(wire.HeaderCode))); ok { // the header was lost on the way
		return ours, true
	}
	return verdict(code.Code(s.GetCode()).String(), a), true
}

// Status returns the status that a call ended with, with its details; nil if err is nil. err is the error of a call of
// this package, of sdk.Call over it, or of a fan-out. Where no attempt ended with a status it is the one that
// [Error.GRPCStatus] describes, so that Status(err).Code() is OK only for a call without an error. Any other error has
// the status that [status.Convert] finds.
func Status(err error) *status.Status {
	var own *Error
	if errors.As(err, &own) && own.status != nil {
		return own.status
	}
	var failed *retry.Error
	if !errors.As(err, &failed) {
		return status.Convert(err)
	}
	if s := statusIn(failed.Body); s != nil {
		return s
	}
	return localStatus(failed)
}

// statusIn returns the status that an answer's body has; nil if it has none.
func statusIn(body []byte) *status.Status {
	var p problem
	if json.Unmarshal(body, &p) == nil && p.GRPCStatus != "" {
		var s spb.Status
		data, err := base64.StdEncoding.DecodeString(p.GRPCStatus)
		if err == nil && proto.Unmarshal(data, &s) == nil {
			return status.FromProto(&s)
		}
	}
	if s, ok := readConnect(body); ok {
		return status.FromProto(s)
	}
	return nil
}
