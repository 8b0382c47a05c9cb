package guardgrpc

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
)

func newInterceptor(t *testing.T) *Interceptor {
	t.Helper()
	g, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	i, err := New(g, Config{Scope: Unscoped, Methods: map[string]Method{
		stockpb.Stock_Reserve_FullMethodName: {Effect: server.Keyed},
		stockpb.Stock_Release_FullMethodName: {Effect: server.Keyed},
	}})
	require.NoError(t, err)
	return i
}

// What cannot be stored is refused, and no caller gets it.
func TestUnary_notStorable(t *testing.T) {
	t.Parallel()
	var none *stockpb.Hold
	for name, out := range map[string]any{"nil": nil, "nil message": none, "no message": "hold", "another message": &stockpb.ShowRequest{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInterceptor(t)
			ctx := grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("idempotency-key", "k"))
			info := &grpc.UnaryServerInfo{FullMethod: stockpb.Stock_Reserve_FullMethodName}
			got, err := i.Unary(ctx, &stockpb.ReserveRequest{}, info, func(context.Context, any) (any, error) { return out, nil })
			require.Nil(t, got)
			s := status.Convert(err)
			require.Equal(t, codes.Internal, s.Code())
			require.Equal(t, "NOT_STORABLE", s.Details()[0].(*errdetails.ErrorInfo).GetReason())
		})
	}
}

func TestUnary_requestIsNoMessage(t *testing.T) {
	t.Parallel()
	info := &grpc.UnaryServerInfo{FullMethod: stockpb.Stock_Reserve_FullMethodName}
	_, err := newInterceptor(t).Unary(t.Context(), "request", info, func(context.Context, any) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	require.Equal(t, codes.Internal, status.Code(err))
}

// A panic settles the key and goes on, as it would without a guard.
func TestUnary_panic(t *testing.T) {
	t.Parallel()
	i := newInterceptor(t)
	ctx := grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("idempotency-key", "k"))
	info := &grpc.UnaryServerInfo{FullMethod: stockpb.Stock_Reserve_FullMethodName}
	require.PanicsWithValue(t, "boom", func() {
		_, _ = i.Unary(ctx, &stockpb.ReserveRequest{}, info, func(context.Context, any) (any, error) { panic("boom") })
	})
	out, err := i.Unary(ctx, &stockpb.ReserveRequest{}, info, func(context.Context, any) (any, error) { return &stockpb.Hold{Id: 2}, nil })
	require.NoError(t, err)
	require.EqualValues(t, 2, out.(*stockpb.Hold).GetId())
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	m := newInterceptor(t).methods[stockpb.Stock_Reserve_FullMethodName]
	hold := &stockpb.Hold{Id: 1, Sku: "tea"}
	good, err := (&answer{message: hold, header: metadata{"a": {"1", "2"}, "b": {"3"}}, trailer: metadata{"a": {"4"}}}).response([]string{"a"})
	require.NoError(t, err)
	later := protowire.AppendVarint(protowire.AppendTag(slices.Clone(good.Body), 99, protowire.VarintType), 7)
	later = appendBytes(later, 98, []byte("of a later version"))
	for _, body := range [][]byte{good.Body, later} {
		a, err := readAnswer(m, server.Response{Body: body})
		require.NoError(t, err)
		require.True(t, proto.Equal(hold, a.message))
		require.Equal(t, metadata{"a": {"1", "2"}}, a.header)
		require.Equal(t, metadata{"a": {"4"}}, a.trailer)
	}
	other, err := (&answer{message: &stockpb.ShowRequest{}}).response(nil)
	require.NoError(t, err)
	failed, err := (&answer{status: &spb.Status{Code: 5}}).response(nil)
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"empty": nil, "cut": good.Body[:len(good.Body)-1], "another type": other.Body, "both": slices.Concat(good.Body, failed.Body),
		"message without type": appendBytes(nil, fieldMessage, nil), "no message": {0xff}, "JSON": []byte(`{"id":1}`),
		"broken message": appendBytes(appendBytes(nil, fieldType, []byte("fanonce.stock.v1.Hold")), fieldMessage, []byte{0xff}),
	} {
		_, err := readAnswer(m, server.Response{Body: body})
		require.Error(t, err, name)
		o := replayOf(m, server.Response{Body: body})
		require.Equal(t, int32(codes.Internal), o.fails().GetCode(), name)
		require.Equal(t, []string{"record-unreadable"}, o.header["idempotency-code"], name)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte{0x0a, 0x01})
	f.Add(appendBytes(appendBytes(nil, fieldType, []byte("fanonce.stock.v1.Hold")), fieldMessage, []byte{8, 1}))
	m := &method{output: (&stockpb.Hold{}).ProtoReflect().Type()}
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := readAnswer(m, server.Response{Body: body}); err == nil && (a.message == nil) == (a.status == nil) {
			t.Errorf("readAnswer(%x) = %v", body, a)
		}
	})
}

// The bytes do not change: a row that another version wrote is compared with them.
func TestCanonical_golden(t *testing.T) {
	t.Parallel()
	in := &stockpb.ReserveRequest{RequestId: "id", Sku: "tea", Quantity: -1, Labels: map[string]string{"b": "2", "a": "1", "": ""}}
	require.Equal(t, []byte("proto/2\x00\x0a\x02id\x12\x03tea\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"+
		"\x22\x04\x0a\x00\x12\x00\x22\x06\x0a\x01a\x12\x011\x22\x06\x0a\x01b\x12\x012"), canonical(in.ProtoReflect()))
	require.Equal(t, []byte("proto/2\x00"), canonical((&stockpb.ReserveRequest{}).ProtoReflect()))
}

// A version of the service that does not know a field yet writes the same bytes as one that does.
func TestCanonical_unknownFields(t *testing.T) {
	t.Parallel()
	whole := &stockpb.ReleaseRequest{Reserve: &stockpb.ReserveRequest{RequestId: "id", Sku: "tea", Quantity: 5}, Hold: &stockpb.Hold{Id: 1, Sku: "tea"}}
	known := proto.CloneOf(whole)
	known.Reserve, known.Hold.Sku = nil, ""
	known.Hold.ProtoReflect().SetUnknown(appendBytes(nil, 2, []byte("tea")))
	data, err := proto.Marshal(whole.GetReserve())
	require.NoError(t, err)
	known.ProtoReflect().SetUnknown(appendBytes(nil, 1, data))
	require.Equal(t, canonical(whole.ProtoReflect()), canonical(known.ProtoReflect()))
	deterministic := func(m proto.Message) []byte {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err)
		return b
	}
	require.NotEqual(t, deterministic(whole), deterministic(known), "protobuf-go's own form would refuse the retry")
}

// Messages with every kind of field come back from their canonical form.
func TestCanonical_isTheWireFormat(t *testing.T) {
	t.Parallel()
	value, err := structpb.NewStruct(map[string]any{"a": 1.5, "b": []any{true, nil, "x", map[string]any{"c": math.Copysign(0, -1)}}, "d": "é"})
	require.NoError(t, err)
	packed, err := anypb.New(durationpb.New(-1))
	require.NoError(t, err)
	for _, m := range []proto.Message{
		value, packed, durationpb.New(-12345), every(t),
		&stockpb.ReleaseRequest{Reserve: &stockpb.ReserveRequest{}, Hold: &stockpb.Hold{Id: -5}},
		&descriptorpb.FileDescriptorProto{Name: proto.String("a"), PublicDependency: []int32{1, -2}, Options: &descriptorpb.FileOptions{
			OptimizeFor: descriptorpb.FileOptions_SPEED.Enum(), UninterpretedOption: []*descriptorpb.UninterpretedOption{{
				PositiveIntValue: proto.Uint64(1 << 63), NegativeIntValue: proto.Int64(-1), DoubleValue: proto.Float64(-0.5), StringValue: []byte{0, 255},
			}},
		}},
	} {
		back := m.ProtoReflect().New().Interface()
		require.NoError(t, proto.Unmarshal(canonical(m.ProtoReflect())[len(canonicalLabel):], back))
		require.True(t, proto.Equal(m, back), "%v came back as %v", m, back)
		require.Equal(t, canonical(m.ProtoReflect()), canonical(back.ProtoReflect()))
	}
}

// A client that builds its request anew for each attempt packs an Any in another order of bytes. It is the same request, at
// any depth that people use, and an Any of another message is not.
func TestCanonical_any(t *testing.T) {
	t.Parallel()
	pack := func(depth int, more map[string]any) proto.Message {
		value, err := structpb.NewStruct(map[string]any{"a": 1, "b": 2, "c": 3, "d": 4, "e": more})
		require.NoError(t, err)
		packed, err := anypb.New(value)
		require.NoError(t, err)
		for range depth {
			packed, err = anypb.New(packed)
			require.NoError(t, err)
		}
		return &spb.Status{Code: 3, Details: []*anypb.Any{packed, {TypeUrl: "type.googleapis.com/not.Linked", Value: []byte{1}}}}
	}
	for _, depth := range []int{0, 1, maxAnys - 1} {
		first := canonical(pack(depth, map[string]any{"f": 6, "g": 7}).ProtoReflect())
		for range 100 {
			require.Equal(t, first, canonical(pack(depth, map[string]any{"g": 7, "f": 6}).ProtoReflect()), "depth %d", depth)
		}
		require.NotEqual(t, first, canonical(pack(depth, map[string]any{"f": 6}).ProtoReflect()))
		back := new(spb.Status)
		require.NoError(t, proto.Unmarshal(first[len(canonicalLabel):], back))
		require.Equal(t, first, canonical(back.ProtoReflect()))
	}
}

// Anys within Anys cost no more than their bytes for each layer that is looked into.
func TestCanonical_anysInAnys(t *testing.T) {
	t.Parallel()
	packed := &anypb.Any{}
	for proto.Size(packed) < 1<<20 {
		data, err := proto.Marshal(packed)
		require.NoError(t, err)
		packed = &anypb.Any{TypeUrl: "x/google.protobuf.Any", Value: data}
		if proto.Size(packed) < 1<<15 {
			continue
		}
		packed.Value = append(packed.Value, protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), make([]byte, 1<<20))...)
	}
	require.Less(t, len(canonical(packed.ProtoReflect())), 2<<20)
}

// The order in which a client writes its fields and map entries does not matter.
func FuzzCanonical(f *testing.F) {
	f.Add("id", "tea", int64(3), "k", "v", uint64(1))
	f.Add("", "", int64(0), "", "", uint64(2))
	f.Fuzz(func(t *testing.T, id, sku string, n int64, k, v string, seed uint64) {
		in := &stockpb.ReserveRequest{RequestId: id, Sku: sku, Quantity: n, Labels: map[string]string{k: v, "other": sku}}
		data, err := proto.Marshal(in)
		if err != nil {
			t.Skip() // not UTF-8
		}
		var fields [][]byte
		for len(data) > 0 {
			_, _, size := protowire.ConsumeField(data)
			fields, data = append(fields, data[:size]), data[size:]
		}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] }) //nolint:gosec // a test
		shuffled := new(stockpb.ReserveRequest)
		if err := proto.Unmarshal(slices.Concat(fields...), shuffled); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(canonical(in.ProtoReflect()), canonical(shuffled.ProtoReflect())) {
			t.Errorf("%v has two forms", in)
		}
	})
}
