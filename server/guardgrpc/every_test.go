package guardgrpc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// every returns a message that has a field of each scalar type: alone, repeated and packed, and repeated only.
func every(t *testing.T) proto.Message {
	t.Helper()
	message := &descriptorpb.DescriptorProto{Name: proto.String("Every")}
	number := int32(0)
	add := func(kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label, packed bool) {
		number++
		field := &descriptorpb.FieldDescriptorProto{Name: proto.String(fmt.Sprint("f", number)), Number: proto.Int32(number), Type: kind.Enum(), Label: label.Enum()}
		if label == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
			field.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(packed)}
		}
		message.Field = append(message.Field, field)
	}
	for kind := descriptorpb.FieldDescriptorProto_TYPE_DOUBLE; kind <= descriptorpb.FieldDescriptorProto_TYPE_SINT64; kind++ {
		switch kind {
		case descriptorpb.FieldDescriptorProto_TYPE_GROUP, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, descriptorpb.FieldDescriptorProto_TYPE_ENUM:
			continue
		case descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES:
		default:
			add(kind, descriptorpb.FieldDescriptorProto_LABEL_REPEATED, true)
		}
		add(kind, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, false)
		add(kind, descriptorpb.FieldDescriptorProto_LABEL_REPEATED, false)
	}
	message.NestedType = []*descriptorpb.DescriptorProto{{Name: proto.String("Group"), Field: []*descriptorpb.FieldDescriptorProto{{
		Name: proto.String("a"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_SINT32.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}}}}
	message.Field = append(message.Field, &descriptorpb.FieldDescriptorProto{
		Name: proto.String("group"), Number: proto.Int32(90), Type: descriptorpb.FieldDescriptorProto_TYPE_GROUP.Enum(),
		TypeName: proto.String(".Every.Group"), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	})
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("every.proto"), Syntax: proto.String("proto2"), MessageType: []*descriptorpb.DescriptorProto{message},
	}, nil)
	require.NoError(t, err)
	m := dynamicpb.NewMessage(file.Messages().Get(0))
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case field.Kind() == protoreflect.GroupKind:
			group := m.Mutable(field).Message()
			group.Set(group.Descriptor().Fields().Get(0), protoreflect.ValueOfInt32(-3))
		case field.IsList():
			for n := range 3 {
				m.Mutable(field).List().Append(sample(field.Kind(), n-1))
			}
		default:
			m.Set(field, sample(field.Kind(), -7))
		}
	}
	return m
}

func sample(kind protoreflect.Kind, n int) protoreflect.Value {
	switch kind {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n != 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n)) //nolint:gosec // small
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n) << 40)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n)) //nolint:gosec // any bits will do
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n)) //nolint:gosec // any bits will do
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n) / 3)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 3)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("é" + string(rune('a'+n+7)))
	default:
		return protoreflect.ValueOfBytes([]byte{byte(n), 0}) //nolint:gosec // any bits will do
	}
}
