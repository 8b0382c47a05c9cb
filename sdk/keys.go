package sdk

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
)

// ChildKey returns the key that a call of operation on service has under
// parent, in the form of the service's [retry.Profile]. It errs with [ErrNoService],
// or as childkey.Derive does. It sends and remembers nothing.
func (c *Client) ChildKey(parent childkey.Key, service, operation string, discriminators ...string) (childkey.Key, error) {
	s, err := c.service(service)
	if err != nil {
		return childkey.Key{}, err
	}
	return s.profile.Derive(parent, service, operation, discriminators...)
}

// KeyOf returns the key that [Call] of op has under the parent key that ctx
// carries: what an undo names as the forward key. Its errors are those of
// [Client.ChildKey], contract.ErrInvalid and [ErrNoParent].
func KeyOf[In, Out any](ctx context.Context, c *Client, op contract.Operation[In, Out]) (childkey.Key, error) {
	if err := op.Err(); err != nil {
		return childkey.Key{}, err
	}
	parent, ok := childkey.FromContext(ctx)
	if !ok {
		return childkey.Key{}, ErrNoParent
	}
	return c.ChildKey(parent, op.Service(), op.Name(), op.Discriminators()...)
}

// A child is the tuple of a call, and the family in which it was derived.
type child struct {
	family *childkey.Family
	hash   childkey.Hash
}

// child derives the tuple of req in the family that ctx carries, which refuses one
// that it knows for another payload, and its key.
func (s *service) child(ctx context.Context, req Request) (child, childkey.Key, error) {
	family := childkey.FamilyFromContext(ctx)
	if family == nil {
		return child{}, childkey.Key{}, ErrNoParent
	}
	hash, err := s.childHash(family, payload(req), req)
	if err != nil {
		return child{}, childkey.Key{}, err
	}
	key, err := s.profile.Encoding.Key(hash)
	return child{family, hash}, key, err
}

func (s *service) childHash(family *childkey.Family, payload [32]byte, req Request) (childkey.Hash, error) {
	if s.profile.Keyed == nil {
		return family.Sum(payload, req.Service, req.Operation, req.Discriminators...)
	}
	hash, err := s.profile.Keyed.Sum(family.Parent(), req.Service, req.Operation, req.Discriminators...)
	if err != nil {
		return childkey.Hash{}, err
	}
	return hash, family.Use(hash, payload)
}

// payload digests what makes a callee take a call for another one. Headers are
// no part of it: a token may be another one in the next run.
func payload(req Request) [32]byte {
	var room [512]byte // most calls' need no more
	b := room[:0]
	for _, part := range [...]string{req.Method, req.Path, req.ContentType, req.Cancels.String()} {
		b = appendPart(b, part)
	}
	if req.Stream != nil {
		sum := req.Stream.Sum()
		return sha256.Sum256(appendPart(b, sum[:]))
	}
	return sha256.Sum256(appendPart(b, req.Body))
}

func appendPart[T string | []byte](b []byte, part T) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
	return append(b, part...)
}
