package guardgrpc

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

var (
	errNoMessage   = errors.New("guardgrpc: the request is not a proto message")
	errBinaryKey   = errors.New("guardgrpc: the key is in Idempotency-Key-Bin: it is text, send it in Idempotency-Key")
	errTwoKeys     = errors.New("guardgrpc: the metadata and the request name two keys")
	errFingerprint = errors.New("guardgrpc: Method.Fingerprint refused the request") // its own text may hold the request
)

// admit checks a call, in the order that callers rely on, and returns what the guard needs. A refused call
// leaves no record. The guard checks the rest.
func (i *Interceptor) admit(ctx context.Context, r *request) (server.Task, childkey.Key, []byte, *refusedError) {
	task := r.method.task
	scope, err := i.scope(ctx)
	if err != nil {
		return task, childkey.Key{}, nil, scopeRefusal(err)
	}
	if scope == "" {
		return task, childkey.Key{}, nil, refuse(wire.ScopeMissing, nil)
	}
	task.Scope = scope
	in := message(r.in)
	if in == nil {
		return task, childkey.Key{}, nil, refuse(wire.NotStorable, errNoMessage)
	}
	key, refused := r.key(in)
	if refused != nil {
		return task, key, nil, refused
	}
	if task.Cancels, _, err = wire.ParseKeyHeader(r.header(wire.HeaderCancels)); err != nil {
		return task, key, nil, refuse(wire.KeyInvalid, err)
	}
	if task.FirstSent, _, err = wire.ParseFirstSent(r.header(wire.HeaderFirstSent)); err != nil {
		return task, key, nil, refuse(wire.FirstSentInvalid, err)
	}
	task.Prefer = r.header(wire.HeaderPrefer)
	input, err := r.method.input(in)
	if err != nil {
		return task, key, nil, refuse(wire.KeyInvalid, errFingerprint)
	}
	return task, key, input, nil
}

// key returns the call's key, from its metadata or its field.
func (r *request) key(in proto.Message) (childkey.Key, *refusedError) {
	if len(r.header(wire.HeaderKey+"-Bin")) > 0 {
		return childkey.Key{}, refuse(wire.KeyInvalid, errBinaryKey)
	}
	key, present, err := wire.ParseKeyHeader(r.header(wire.HeaderKey))
	if err != nil {
		return key, refuse(wire.KeyInvalid, err)
	}
	text := r.method.fieldText(in)
	switch {
	case text == "" && !present && r.method.task.KeyOptional:
		return childkey.Key{}, nil
	case text == "" && !present:
		return key, refuse(wire.KeyMissing, nil)
	case text == "":
		return key, nil
	}
	inField, err := childkey.Parse(text)
	switch {
	case err != nil:
		return key, refuse(wire.KeyInvalid, err)
	case present && inField != key:
		return key, refuse(wire.KeyInvalid, errTwoKeys)
	}
	return inField, nil
}

// fieldText returns the text in the method's KeyField; "" if there is none.
func (m *method) fieldText(in proto.Message) string {
	if m.field == nil {
		return ""
	}
	if in.ProtoReflect().Descriptor() != m.field.Parent() {
		return "" // a hand-written handler takes another type
	}
	return in.ProtoReflect().Get(m.field).String()
}

// input returns the bytes that the key belongs to.
func (m *method) input(in proto.Message) ([]byte, error) {
	if m.Fingerprint != nil {
		return m.Fingerprint(in)
	}
	return canonical(in.ProtoReflect()), nil
}

// keyless reports whether a call goes without a guard because it has no key and needs none. A Transactional method gets
// such a call from the guard, in a transaction.
func (r *request) keyless() bool {
	if !r.method.KeyOptional || r.method.task.KeyOptional || hasKey(r.header) {
		return false
	}
	in := message(r.in)
	return in == nil || r.method.fieldText(in) == ""
}
