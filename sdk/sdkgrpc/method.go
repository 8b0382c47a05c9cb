package sdkgrpc

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fanonce/fanonce/childkey/contract"
)

// contentType is the type of a message of protobuf, as connect has it.
const contentType = "application/proto"

// Method declares an operation that is a unary method of gRPC or connect. In and Out are the messages of
// the method. method is its full name, such as "/stock.v1.Stock/Reserve": the generated code has a
// constant. service is the name of the callee in [sdk.Config].
//
//	var Reserve = sdkgrpc.Method[*stockpb.ReserveRequest, *stockpb.Hold]("stock", stockpb.Stock_Reserve_FullMethodName)
//
// The operation's name, of which child keys are made, is method without its first slash. The mistakes of a declaration are in
// its Err: a streaming method, or messages that are not the method's.
//
// A saga keeps inputs and results as JSON, which loses a part of some messages: wrap those of a saga in [JSON].
func Method[In, Out proto.Message](service, method string) contract.Operation[In, Out] {
	op := contract.Post[In, Out](service, strings.TrimPrefix(method, "/"), method).WithCodec(codec{})
	return op.Invalid(checkMethod(method, nameOf[In](), nameOf[Out]()))
}

// UndoMethod declares the operation that undoes one which [Method] declared. request makes the
// method's message from the forward call's input and output. The Output is nil if it is not known. request must be
// pure, because a repetition calls it again. The method's answer is not used.
func UndoMethod[In, Out, Req proto.Message](
	service, method string, request func(contract.Undo[In, Out]) Req,
) contract.Operation[contract.Undo[In, Out], struct{}] {
	op := contract.Post[contract.Undo[In, Out], struct{}](service, strings.TrimPrefix(method, "/"), method)
	if request == nil {
		return op.Invalid(errors.New("request: nil"))
	}
	op = op.WithCodec(undoCodec[In, Out, Req]{request: request})
	return op.Invalid(checkMethod(method, nameOf[Req](), ""))
}

// nameOf returns the full name of the message M; "" if M is an interface.
func nameOf[M proto.Message]() protoreflect.FullName {
	var m M
	if any(m) == nil {
		return ""
	}
	return m.ProtoReflect().Descriptor().FullName()
}

// checkMethod compares a declaration with the proto, if that is linked into the program.
func checkMethod(method string, in, out protoreflect.FullName) error {
	d := findMethod(method)
	switch {
	case strings.Count(method, "/") != 2:
		return fmt.Errorf("method %q is no full name, /package.Service/Method", method)
	case d == nil:
		return nil
	case d.IsStreamingClient() || d.IsStreamingServer():
		return fmt.Errorf("method %s streams: only a unary method can be an operation", method)
	case in != "" && in != d.Input().FullName():
		return fmt.Errorf("method %s takes a %s, not a %s", method, d.Input().FullName(), in)
	case out != "" && out != d.Output().FullName():
		return fmt.Errorf("method %s returns a %s, not a %s", method, d.Output().FullName(), out)
	}
	return nil
}

// A JSON is a message that encoding/json writes and reads as protojson does. Declare an operation with it for a saga, whose journal
// is JSON. The zero JSON is null.
type JSON[M proto.Message] struct{ Message M }

// ProtoReflect implements proto.Message.
func (j JSON[M]) ProtoReflect() protoreflect.Message { return j.Message.ProtoReflect() }

// MarshalJSON implements json.Marshaler. Equal messages give equal bytes, when encoding/json has compacted them.
func (j JSON[M]) MarshalJSON() ([]byte, error) {
	if !valid(j.Message) {
		return []byte("null"), nil
	}
	return protojson.Marshal(j.Message)
}

// UnmarshalJSON implements json.Unmarshaler. It ignores members that the message does not have, since caller and
// callee are deployed one after the other.
func (j *JSON[M]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*j = JSON[M]{}
		return nil
	}
	m := newMessage[M]()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return err
	}
	j.Message = m
	return nil
}

func (j *JSON[M]) unmarshalProto(data []byte) error {
	m := newMessage[M]()
	if err := proto.Unmarshal(data, m); err != nil {
		return err
	}
	j.Message = m
	return nil
}

func newMessage[M proto.Message]() M {
	var none M
	m, _ := none.ProtoReflect().Type().New().Interface().(M)
	return m
}

// valid reports whether m is a message, not a nil.
func valid(m proto.Message) bool {
	v := reflect.ValueOf(m)
	return v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) && m.ProtoReflect().IsValid()
}

// codec is the contract.Codec of messages.
type codec struct{}

// ContentType implements contract.Codec.
func (codec) ContentType() string { return contentType }

// Encode implements contract.Codec.
func (codec) Encode(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok || !valid(m) {
		return nil, fmt.Errorf("sdkgrpc: %T is no proto message, or nil", v)
	}
	return marshal(m)
}

// marshal returns the same bytes for equal messages. Between versions of protobuf they may differ: guardgrpc does
// not mind.
func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Decode implements contract.Codec.
func (codec) Decode(data []byte, v any) error {
	if wrapped, ok := v.(interface{ unmarshalProto([]byte) error }); ok {
		return wrapped.unmarshalProto(data)
	}
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Pointer {
		return fmt.Errorf("sdkgrpc: %T is no pointer to a proto message", v)
	}
	made := reflect.New(target.Elem().Type().Elem())
	m, ok := made.Interface().(proto.Message)
	if !ok {
		return fmt.Errorf("sdkgrpc: %T is no pointer to a proto message", v)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return err
	}
	target.Elem().Set(made)
	return nil
}

// undoCodec is the contract.Codec of undos.
type undoCodec[In, Out, Req proto.Message] struct {
	request func(contract.Undo[In, Out]) Req
}

// ContentType implements contract.Codec.
func (undoCodec[In, Out, Req]) ContentType() string { return contentType }

// Encode implements contract.Codec.
func (c undoCodec[In, Out, Req]) Encode(v any) ([]byte, error) {
	undo, ok := v.(contract.Undo[In, Out])
	if !ok {
		return nil, fmt.Errorf("sdkgrpc: %T is no %T", v, undo)
	}
	return codec{}.Encode(c.request(undo))
}

// Decode implements contract.Codec: nobody uses the answer of an undo.
func (undoCodec[In, Out, Req]) Decode([]byte, any) error { return nil }
