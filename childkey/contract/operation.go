package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey"
)

// ErrInvalid is wrapped by [Operation.Err]: an operation was declared wrongly,
// or filled in wrongly.
var ErrInvalid = errors.New("contract: invalid operation")

// An Operation is one operation of one service: its names, its method and path, and the
// types of its input and output. Child keys are derived from the names. The body is JSON
// unless WithCodec says otherwise. An Operation is an immutable value and safe for
// concurrent use: At, For, UndoneBy and WithCodec return changed copies. The zero Operation is
// invalid.
//
// A wrong declaration does not panic: [Operation.Err] has the error, and
// server.Handle, sdk.Call and sdk.Add return it before any I/O.
type Operation[In, Out any] struct {
	service, name  string
	method, path   string
	segments       []segment
	at             []param
	discriminators []string
	codec          Codec                  // nil: JSON
	undo           UndoOperation[In, Out] // nil: none
	err            error
	lost           error // why JSON does not keep an In or an Out; nil: it does
}

// methodDelete is http.MethodDelete; this package must not import net/http.
const methodDelete = "DELETE"

type param struct{ name, value string }

// Post declares a POST operation. service and operation are names, see
// [childkey.CheckName]. path is a ServeMux path without method and host, as
// "/orders/{id}/capture"; [Operation.At] fills its wildcards. A path that ends
// with a slash must say {$}, for itself alone, or {name...}, for all below.
func Post[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out]("POST", service, operation, path)
}

// Put declares a PUT operation; see [Post].
func Put[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out]("PUT", service, operation, path)
}

// Patch declares a PATCH operation; see [Post].
func Patch[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out]("PATCH", service, operation, path)
}

// Delete declares a DELETE operation; see [Post].
func Delete[In, Out any](service, operation, path string) Operation[In, Out] {
	return declare[In, Out](methodDelete, service, operation, path)
}

func declare[In, Out any](method, service, name, path string) Operation[In, Out] {
	op := Operation[In, Out]{service: service, name: name, method: method, path: path}
	if err := childkey.CheckName(service); err != nil {
		return op.refuse(fmt.Errorf("service: %w", innerError{err}))
	}
	if err := childkey.CheckName(name); err != nil {
		return op.refuse(fmt.Errorf("operation: %w", innerError{err}))
	}
	segments, err := parsePath(path)
	if err != nil {
		return op.refuse(err)
	}
	op.segments = segments
	if err := cmp.Or(CheckType[In](), CheckType[Out]()); err != nil {
		op.lost = fmt.Errorf("%w: %s %s: %w; another codec may keep it, see WithCodec", ErrInvalid, service, name, innerError{err})
	}
	return op
}

// refuse returns op with err, unless it has one: the first is the cause.
func (op Operation[In, Out]) refuse(err error) Operation[In, Out] {
	if op.err == nil {
		op.err = fmt.Errorf("%w: %s %s: %w", ErrInvalid, cmp.Or(op.service, `""`), cmp.Or(op.name, `""`), err)
	}
	return op
}

// An innerError is an error inside another one of this package, which names the package already.
type innerError struct{ error }

func (e innerError) Error() string {
	text := e.error.Error()
	for _, known := range []string{ErrInvalid.Error() + ": ", "contract: ", "childkey: "} {
		text = strings.TrimPrefix(text, known)
	}
	return text
}

func (e innerError) Unwrap() error { return e.error }

// Invalid returns the operation with err as its [Operation.Err], unless it has one. It is for
// packages that declare operations of another protocol, and find a mistake that this one cannot
// see. A nil err changes nothing.
func (op Operation[In, Out]) Invalid(err error) Operation[In, Out] {
	if err == nil {
		return op
	}
	return op.refuse(err)
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

// Encode returns in as the body of a call, as the operation's codec writes it. It ties an
// Operation to its input, for code that does not need the type of the output.
//
// Encode returns nil for a DELETE whose In is struct{}: its body is empty. The meaning of
// content in a DELETE is not defined (RFC 9110 section 9.3.5), and some servers and proxies
// refuse it.
func (op Operation[In, Out]) Encode(in In) ([]byte, error) {
	if _, nothing := any(in).(struct{}); nothing && op.method == methodDelete {
		return nil, nil
	}
	return op.Codec().Encode(in)
}

// Err returns the first mistake in the declaration or in the arguments of At and For. It
// wraps [ErrInvalid], and [ErrType] if the codec is JSON, which loses a part of an In or an
// Out. Nil means that the operation is valid.
func (op Operation[In, Out]) Err() error {
	switch {
	case op.err != nil:
		return op.err
	case op.method == "":
		return fmt.Errorf("%w: not declared, use Post, Put, Patch or Delete", ErrInvalid)
	case op.Codec() == JSON:
		return op.lost
	}
	return nil
}

// At returns the operation with the wildcard {name} of its path set to value,
// percent-encoded. value is one segment; that of a {name...} is any number of them, with
// slashes. A name that is not in the path is an error, and so is a second value for one
// name. A value with a segment that is empty, ".", ".." or "/" is an error too. See
// [Operation.Err].
//
// The child key does not depend on the path. Calls under one parent that differ in the path
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

// For returns the operation with these discriminators instead of those it had. They tell
// several calls of one operation under one parent apart. Take an SKU or the id of a line,
// never a position in a list that may change. Their limits are those of [childkey.Derive];
// a discriminator beyond them is an error, see [Operation.Err].
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
