package guardgrpc

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// A metadata is header or trailer metadata, by names in lower case.
type metadata map[string][]string

// An answer is the end of one call: a message, or a status that is not OK.
type answer struct {
	message         proto.Message
	status          *spb.Status // nil: OK
	header, trailer metadata    // of the handler
	forward         string      // an undo's Idempotent-Forward
}

// contentType is the type of the bytes of a stored answer.
const contentType = "application/vnd.fanonce.grpc-answer"

// The fields of a stored answer, which is a message on the wire: new fields can follow.
const (
	fieldType    protowire.Number = 1 // the full name of the message's type
	fieldMessage protowire.Number = 2
	fieldStatus  protowire.Number = 3
	fieldHeader  protowire.Number = 4 // name, NUL, value
	fieldTrailer protowire.Number = 5
)

// response returns the answer as the guard stores it. keep has the metadata to store.
func (a *answer) response(keep []string) (server.Response, error) {
	var b []byte
	status := http.StatusOK
	if a.status != nil {
		status = statusOf(codes.Code(a.status.GetCode())) //nolint:gosec // codes are small
		data, err := proto.Marshal(a.status)
		if err != nil {
			return server.Response{}, err
		}
		b = appendBytes(b, fieldStatus, data)
	} else {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(a.message)
		if err != nil {
			return server.Response{}, err
		}
		b = appendBytes(b, fieldType, []byte(a.message.ProtoReflect().Descriptor().FullName()))
		b = appendBytes(b, fieldMessage, data)
	}
	b = appendMetadata(b, fieldHeader, a.header, keep)
	b = appendMetadata(b, fieldTrailer, a.trailer, keep)
	return server.Response{Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: b}, nil
}

func appendBytes(b []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), data)
}

func appendMetadata(b []byte, number protowire.Number, md metadata, keep []string) []byte {
	for _, name := range keep {
		for _, value := range md[name] {
			b = appendBytes(b, number, []byte(name+"\x00"+value))
		}
	}
	return b
}

var errStored = errors.New("guardgrpc: the stored answer is not one of this method")

// readAnswer returns a stored answer of m.
func readAnswer(m *method, stored server.Response) (*answer, error) {
	a := &answer{header: metadata{}, trailer: metadata{}, forward: stored.Header.Get(wire.HeaderForward)}
	for b := stored.Body; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, errStored
		}
		if kind != protowire.BytesType { // of a later version
			skip := protowire.ConsumeFieldValue(number, kind, b[n:])
			if skip < 0 {
				return nil, errStored
			}
			b = b[n+skip:]
			continue
		}
		data, size := protowire.ConsumeBytes(b[n:])
		if size < 0 {
			return nil, errStored
		}
		if err := a.read(m, number, data); err != nil {
			return nil, err
		}
		b = b[n+size:]
	}
	if (a.message == nil) == (a.status == nil) {
		return nil, errStored
	}
	return a, nil
}

// read takes in one field. The type comes before the message.
func (a *answer) read(m *method, number protowire.Number, data []byte) error {
	switch number {
	case fieldType:
		if string(data) != string(m.output.Descriptor().FullName()) {
			return errStored
		}
		a.message = m.output.New().Interface()
	case fieldMessage:
		if a.message == nil {
			return errStored
		}
		return proto.Unmarshal(data, a.message)
	case fieldStatus:
		a.status = new(spb.Status)
		return proto.Unmarshal(data, a.status)
	case fieldHeader, fieldTrailer:
		name, value, _ := strings.Cut(string(data), "\x00")
		md := a.header
		if number == fieldTrailer {
			md = a.trailer
		}
		md[name] = append(md[name], value)
	default: // of a later version
	}
	return nil
}

// add adds values to those of name.
func (m metadata) add(other map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(other)) {
		lower := strings.ToLower(name)
		m[lower] = append(m[lower], other[name]...)
	}
}

// checkReplayed refuses names that a repetition must not carry from one call to another.
func checkReplayed(names []string) ([]string, error) {
	keep := make([]string, len(names))
	for i, name := range names {
		keep[i] = strings.ToLower(name)
		if isReserved(keep[i]) || strings.HasPrefix(keep[i], "grpc-") || strings.HasPrefix(keep[i], ":") || slices.Contains(neverReplayed, keep[i]) {
			return nil, reject("Config.ReplayMetadata", name, "belongs to one call, or is set by gRPC or by this library")
		}
		if keep[i] == "" || strings.ContainsAny(keep[i], "\x00 \r\n") {
			return nil, reject("Config.ReplayMetadata", name, "must be the name of a metadata entry")
		}
	}
	slices.Sort(keep)
	return slices.Compact(keep), nil
}

// neverReplayed are the other names that no repetition carries.
var neverReplayed = []string{
	"authorization", "connection", "content-length", "content-type", "cookie", "date", "retry-after", "retry-after-ms", "set-cookie",
	"te", "traceparent", "tracestate", "trailer", "transfer-encoding", "user-agent", "www-authenticate", "x-request-id",
}

// isReserved reports whether the guard itself sets metadata of this name.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "idempotency-") || strings.HasPrefix(name, "idempotent-") || name == strings.ToLower(wire.HeaderXShouldRetry)
}
