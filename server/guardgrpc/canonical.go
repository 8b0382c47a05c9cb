package guardgrpc

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// canonicalLabel names the algorithm below in what is fingerprinted. The algorithm does not change
// while keys live: a change gets another label.
const canonicalLabel = "proto/2\x00"

// canonical returns m in a form that is fingerprinted: the label and the wire format with all fields in
// the order of their numbers and all maps in the order of their keys.
//
// Deterministic marshalling of protobuf-go will not do: its output may differ between versions.
// It also writes a field that this program does not know behind the others, so that the old and
// the new version of a service would write one request in two ways.
//
// The message in a google.protobuf.Any is written in the same way, because clients pack it in any order. This needs the
// generated code of the message: an Any of another type counts by its bytes.
func canonical(m protoreflect.Message) []byte {
	return appendMessage(append(make([]byte, 0, 128), canonicalLabel...), m, 0)
}

// A part is a field as it is encoded, with its tag: b[start:end].
type part struct {
	number     protowire.Number
	start, end int
}

func appendMessage(b []byte, m protoreflect.Message, anys int) []byte {
	if m.Descriptor().FullName() == anyName && anys < maxAnys {
		if packed, ok := unpack(m); ok {
			return appendAny(b, m, packed, anys+1)
		}
	}
	parts, first := make([]part, 0, 8), len(b)
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		start := len(b)
		b = appendField(b, field, v, anys)
		parts = append(parts, part{field.Number(), start, len(b)})
		return true
	})
	for unknown := m.GetUnknown(); len(unknown) > 0; {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 { // protobuf-go has checked it
			number, n = math.MaxInt32, len(unknown)
		}
		b = append(b, unknown[:n]...)
		parts = append(parts, part{number, len(b) - n, len(b)})
		unknown = unknown[n:]
	}
	byNumber := func(x, y part) int { return cmp.Compare(x.number, y.number) }
	if slices.IsSortedFunc(parts, byNumber) { // protobuf-go usually has this order
		return b
	}
	slices.SortStableFunc(parts, byNumber)
	encoded := slices.Clone(b[first:])
	b = b[:first]
	for _, p := range parts {
		b = append(b, encoded[p.start-first:p.end-first]...)
	}
	return b
}

const (
	anyName = protoreflect.FullName("google.protobuf.Any")
	// maxAnys is how deep messages in Anys are looked into. Each layer is a copy of what is in it.
	maxAnys = 16

	anyTypeURL protowire.Number = 1
	anyValue   protowire.Number = 2
)

// unpack returns the message in an Any; false if its type is not linked into the program, or its bytes are not one.
func unpack(m protoreflect.Message) (protoreflect.Message, bool) {
	fields := m.Descriptor().Fields()
	t, err := protoregistry.GlobalTypes.FindMessageByURL(m.Get(fields.ByNumber(anyTypeURL)).String())
	if err != nil {
		return nil, false
	}
	packed := t.New()
	err = proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(m.Get(fields.ByNumber(anyValue)).Bytes(), packed.Interface())
	return packed, err == nil
}

// appendAny appends an Any with its message in canonical form.
func appendAny(b []byte, m, packed protoreflect.Message, anys int) []byte {
	url := m.Get(m.Descriptor().Fields().ByNumber(anyTypeURL)).String()
	b = protowire.AppendString(protowire.AppendTag(b, anyTypeURL, protowire.BytesType), url)
	b = protowire.AppendBytes(protowire.AppendTag(b, anyValue, protowire.BytesType), appendMessage(nil, packed, anys))
	return append(b, m.GetUnknown()...)
}

func appendField(b []byte, field protoreflect.FieldDescriptor, v protoreflect.Value, anys int) []byte {
	switch {
	case field.IsMap():
		return appendMap(b, field, v.Map(), anys)
	case field.IsList() && field.IsPacked():
		var packed []byte
		for i := range v.List().Len() {
			packed = appendScalar(packed, field.Kind(), v.List().Get(i))
		}
		return protowire.AppendBytes(protowire.AppendTag(b, field.Number(), protowire.BytesType), packed)
	case field.IsList():
		for i := range v.List().Len() {
			b = appendOne(b, field, v.List().Get(i), anys)
		}
		return b
	default:
		return appendOne(b, field, v, anys)
	}
}

// appendMap appends the entries in the order of their encoded keys.
func appendMap(b []byte, field protoreflect.FieldDescriptor, entries protoreflect.Map, anys int) []byte {
	type entry struct{ key, whole []byte }
	var sorted []entry
	entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		key := appendOne(nil, field.MapKey(), k.Value(), anys)
		sorted = append(sorted, entry{key, appendOne(slices.Clone(key), field.MapValue(), v, anys)})
		return true
	})
	slices.SortFunc(sorted, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range sorted {
		b = protowire.AppendBytes(protowire.AppendTag(b, field.Number(), protowire.BytesType), e.whole)
	}
	return b
}

// appendOne appends a tag and one value.
func appendOne(b []byte, field protoreflect.FieldDescriptor, v protoreflect.Value, anys int) []byte {
	number := field.Number()
	switch field.Kind() {
	case protoreflect.MessageKind:
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), appendMessage(nil, v.Message(), anys))
	case protoreflect.GroupKind:
		b = appendMessage(protowire.AppendTag(b, number, protowire.StartGroupType), v.Message(), anys)
		return protowire.AppendTag(b, number, protowire.EndGroupType)
	default:
		return appendScalar(protowire.AppendTag(b, number, wireType(field.Kind())), field.Kind(), v)
	}
}

func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind:
		return protowire.BytesType
	default:
		return protowire.VarintType
	}
}

func appendScalar(b []byte, kind protoreflect.Kind, v protoreflect.Value) []byte {
	switch kind {
	case protoreflect.BoolKind:
		return protowire.AppendVarint(b, protowire.EncodeBool(v.Bool()))
	case protoreflect.EnumKind:
		return protowire.AppendVarint(b, uint64(v.Enum())) //nolint:gosec // negative numbers take 10 bytes on the wire
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return protowire.AppendVarint(b, uint64(v.Int())) //nolint:gosec // as above
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(b, protowire.EncodeZigZag(v.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return protowire.AppendVarint(b, v.Uint())
	case protoreflect.Fixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Uint())) //nolint:gosec // the field has 32 bits
	case protoreflect.Fixed64Kind:
		return protowire.AppendFixed64(b, v.Uint())
	case protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Int())) //nolint:gosec // the field has 32 bits
	case protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(b, uint64(v.Int())) //nolint:gosec // two's complement
	case protoreflect.FloatKind:
		return protowire.AppendFixed32(b, math.Float32bits(float32(v.Float())))
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(b, math.Float64bits(v.Float()))
	case protoreflect.StringKind:
		return protowire.AppendString(b, v.String())
	default: // bytes: appendOne has the messages and groups
		return protowire.AppendBytes(b, v.Bytes())
	}
}
