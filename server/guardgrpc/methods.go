package guardgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fanonce/fanonce/server"
)

// A method is a guarded method.
type method struct {
	Method
	task   server.Task // without its call's fields
	output protoreflect.MessageType
	field  protoreflect.FieldDescriptor // the KeyField; nil: none
}

// methods returns the guarded methods by their full names.
func (c *Config) methods(guard *server.Guard) (map[string]*method, error) {
	names, err := c.serviceNames()
	if err != nil {
		return nil, err
	}
	guarded := make(map[string]*method)
	listed := maps.Clone(c.Methods)
	for _, name := range names {
		service, err := findService(name)
		if err != nil {
			return nil, err
		}
		for i := range service.Methods().Len() {
			d := service.Methods().Get(i)
			full := "/" + name + "/" + string(d.Name())
			given, ok := listed[full]
			delete(listed, full)
			m, err := newMethod(guard, full, d, given, ok)
			if err != nil {
				return nil, err
			}
			if m != nil {
				guarded[full] = m
			}
		}
	}
	for _, full := range slices.Sorted(maps.Keys(listed)) {
		return nil, reject(methodField(full), "", "the service has no such method")
	}
	return guarded, nil
}

// serviceNames returns the guarded services, in order: of several mistakes the same one is
// reported each time.
func (c *Config) serviceNames() ([]string, error) {
	names := slices.Clone(c.Services)
	for _, full := range slices.Sorted(maps.Keys(c.Methods)) {
		rest, slash := strings.CutPrefix(full, "/")
		service, name, found := strings.Cut(rest, "/")
		if !slash || !found || service == "" || name == "" {
			return nil, reject(methodField(full), "", `is no full name of a method, "/package.Service/Method"`)
		}
		names = append(names, service)
	}
	if len(names) == 0 {
		return nil, reject("Config.Methods", "empty", "name the methods to guard")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func methodField(full string) string { return fmt.Sprintf("Config.Methods[%q]", full) }

// findService finds the descriptor that generated code registers.
func findService(name string) (protoreflect.ServiceDescriptor, error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	service, ok := d.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, reject("Config.Services", fmt.Sprintf("%q", name), "no generated code of this service is linked into the program")
	}
	return service, nil
}

// newMethod returns a method, or nil if its calls pass unguarded. listed says that the
// Config has it.
func newMethod(guard *server.Guard, full string, d protoreflect.MethodDescriptor, given Method, listed bool) (*method, error) {
	streams := d.IsStreamingClient() || d.IsStreamingServer()
	switch {
	case streams && listed:
		return nil, reject(methodField(full), "streaming", "streams are not stored: only unary methods can be guarded")
	case streams, given.Unguarded && given.plain():
		return nil, nil
	case given.Unguarded:
		return nil, reject(methodField(full)+".Unguarded", true, "excludes the other fields")
	}
	effect, err := given.effect(d)
	if err != nil || effect == 0 {
		return nil, err
	}
	m := &method{Method: given, task: server.Task{
		Name: full, Effect: effect, Wait: given.Wait, KeyOptional: given.KeyOptional && effect == server.Transactional,
	}}
	if m.field, err = given.keyField(full, d.Input()); err != nil {
		return nil, err
	}
	if m.output, err = protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName()); err != nil {
		return nil, reject(methodField(full), d.Output().FullName(), "no generated code of the answer is linked into the program: it could not be replayed")
	}
	return m, m.check(guard, full)
}

// plain reports whether Unguarded is the only field that is set.
func (m *Method) plain() bool {
	return m.Effect == 0 && m.KeyField == "" && !m.KeyOptional && m.Wait == 0 && m.Fingerprint == nil
}

// effect returns the method's class; 0 if it is not guarded.
func (m *Method) effect(d protoreflect.MethodDescriptor) (server.Effect, error) {
	if m.Effect != 0 {
		return m.Effect, nil
	}
	options, _ := d.Options().(*descriptorpb.MethodOptions)
	level := options.GetIdempotencyLevel()
	full := "/" + string(d.Parent().FullName()) + "/" + string(d.Name())
	switch {
	case level == descriptorpb.MethodOptions_IDEMPOTENT:
		return server.Keyed, nil
	case level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS && m.plain():
		return 0, nil
	}
	return 0, reject(methodField(full)+".Effect", 0, "declare an Effect or Unguarded, or an idempotency_level in the proto: there is no default")
}

func (m *Method) keyField(full string, input protoreflect.MessageDescriptor) (protoreflect.FieldDescriptor, error) {
	if m.KeyField == "" {
		return nil, nil
	}
	field := input.Fields().ByName(protoreflect.Name(m.KeyField))
	if field == nil || field.Kind() != protoreflect.StringKind || field.Cardinality() == protoreflect.Repeated {
		return nil, reject(methodField(full)+".KeyField", fmt.Sprintf("%q", m.KeyField), string(input.FullName())+" has no such field of a string")
	}
	return field, nil
}

// check asks the guard about the method's task, with a scope in the place of a caller's.
func (m *method) check(guard *server.Guard, full string) error {
	task := m.task
	task.Scope, _ = Unscoped(context.Background())
	err := guard.CheckTask(task)
	var wrong *server.ConfigError
	if errors.As(err, &wrong) {
		_, field, _ := strings.Cut(wrong.Field, ".") // of the guard's own type
		return reject(methodField(full)+"."+field, wrong.Value, wrong.Reason)
	}
	return err
}

// message returns the proto message that v is; nil if it is none.
func message(v any) proto.Message {
	m, ok := v.(proto.Message)
	if !ok || m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	return m
}
