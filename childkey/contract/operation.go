package contract

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// ErrInvalid is wrapped by [Operation.Err]: an operation was declared wrongly,
// or filled in wrongly.
var ErrInvalid = errors.New("contract: invalid operation")

// An Operation is one operation of one service: its names, from which child
// keys are derived, its method and path, and the types of what goes in and
// what comes out (JSON, unless WithCodec says otherwise). It is an immutable
// value, safe for concurrent use: At, For and WithCodec return changed copies. The
// zero Operation is invalid.
//
// A wrong declaration does not panic: [Operation.Err] has the error, and
// server.Handle, sdk.Call and sdk.Go return it before any I/O.
type Operation[In, Out any] struct {
	service, name  string
	method, path   string
	segments       []segment
	at             []param
	discriminators []string
	codec          Codec // nil: JSON
	err            error
}

type param struct{ name, value string }

// Post declares a POST operation. service and operation are names, see
// [childkey.CheckName]. path is a ServeMux path without method and host, as
// "/orders/{id}/capture"; [Operation.At] fills its wildcards. A path that ends
// with a slash must say {$}, for itself alone, or {name...}, for all below.
func Post[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out](http.MethodPost, service, operation, path)
}

// Put declares a PUT operation; see [Post].
func Put[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out](http.MethodPut, service, operation, path)
}

// Patch declares a PATCH operation; see [Post].
func Patch[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out](http.MethodPatch, service, operation, path)
}

// Delete declares a DELETE operation; see [Post].
func Delete[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out](http.MethodDelete, service, operation, path)
}

func declare[In, Out any](method, service, name, path string) Operation[In, Out] {
	op := Operation[In, Out]{service: service, name: name, method: method, path: path}
	if err := childkey.CheckName(service); err != nil {
		return op.refuse(fmt.Errorf("service: %w", err))
	}
	if err := childkey.CheckName(name); err != nil {
		return op.refuse(fmt.Errorf("operation: %w", err))
	}
	segments, err := parsePath(path)
	if err != nil {
		return op.refuse(err)
	}
	op.segments = segments
	return op
}

// refuse returns op with err, unless it has one: the first is the cause.
func (op Operation[In, Out]) refuse(err error) Operation[In, Out] {
	if op.err == nil {
		op.err = fmt.Errorf("%w: %s %s: %w", ErrInvalid, op.service, op.name, err)
	}
	return op
}

// Service returns the name of the service.
func (op Operation[In, Out]) Service() string { return op.service }

// Name returns the name of the operation.
func (op Operation[In, Out]) Name() string { return op.name }

// Method returns the HTTP method.
func (op Operation[In, Out]) Method() string { return op.method }

// Pattern returns the path as declared, with its wildcards.
func (op Operation[In, Out]) Pattern() string { return op.path }

// Discriminators returns what [Operation.For] set; nil if it was not called.
func (op Operation[In, Out]) Discriminators() []string { return slices.Clone(op.discriminators) }

// Encode returns in as the body of a call, as the operation's codec writes it. It
// ties an Operation to its input for code that has no use for the output's type.
//
// A DELETE whose In is struct{} has no body: Encode returns nil. Content in a DELETE has no
// defined meaning (RFC 9110 section 9.3.5), and some servers and proxies refuse it.
func (op Operation[In, Out]) Encode(in In) ([]byte, error) {
	if _, nothing := any(in).(struct{}); nothing && op.method == http.MethodDelete {
		return nil, nil
	}
	return op.Codec().Encode(in)
}

// Err returns what is wrong with the declaration or with what At and For
// filled in, wrapping [ErrInvalid]; nil if nothing is.
func (op Operation[In, Out]) Err() error {
	if op.err == nil && op.method == "" {
		return fmt.Errorf("%w: not declared, use Post, Put, Patch or Delete", ErrInvalid)
	}
	return op.err
}

// At returns the operation with the wildcard {name} of its path set to value,
// percent-encoded. value is one segment; that of a {name...} is any number of
// them, with slashes. A name that the path has not, a second value for one name,
// and a value with a segment that is empty, ".", ".." or "/" are errors, see
// [Operation.Err].
//
// The path is no part of the child key: calls under one parent that differ in it
// alone need [Operation.For] as well.
func (op Operation[In, Out]) At(name, value string) Operation[In, Out] {
	if op.Err() != nil {
		return op
	}
	i := slices.IndexFunc(op.segments, func(s segment) bool { return name != "" && s.wildcard == name })
	if i < 0 {
		return op.refuse(fmt.Errorf("path %q has no {%s}", op.path, name))
	}
	if _, ok := op.value(name); ok {
		return op.refuse(fmt.Errorf("path %q: {%s} is set already", op.path, name))
	}
	value, err := op.segments[i].fill(value)
	if err != nil {
		return op.refuse(err)
	}
	op.at = append(slices.Clip(op.at), param{name, value}) // Clip: copies of op must not share it
	return op
}

// For returns the operation with discriminators, in place of those it had: what
// tells several calls of one operation under one parent apart (an SKU, a line's
// id: never a position in a list that may change). Their limits are those of
// [childkey.Derive]; beyond them it is an error, see [Operation.Err].
func (op Operation[In, Out]) For(discriminators ...string) Operation[In, Out] {
	if op.Err() != nil {
		return op
	}
	if err := childkey.CheckDiscriminators(discriminators...); err != nil {
		return op.refuse(err)
	}
	op.discriminators = slices.Clone(discriminators)
	return op
}

// Path returns the path with its wildcards filled, percent-encoded. It returns
// [Operation.Err], or an error wrapping [ErrInvalid] if a wildcard is left.
func (op Operation[In, Out]) Path() (string, error) {
	if err := op.Err(); err != nil {
		return "", err
	}
	var path strings.Builder
	for _, s := range op.segments {
		text := s.literal
		if s.wildcard != "" {
			value, ok := op.value(s.wildcard)
			if !ok {
				return "", op.refuse(fmt.Errorf("path %q: {%s} is not set, use At", op.path, s.wildcard)).err
			}
			text = value
		}
		path.WriteString("/" + text)
	}
	return path.String(), nil
}

// value returns what At set the wildcard to, percent-encoded.
func (op Operation[In, Out]) value(wildcard string) (string, bool) {
	for _, p := range op.at {
		if p.name == wildcard {
			return p.value, true
		}
	}
	return "", false
}
