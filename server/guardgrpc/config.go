package guardgrpc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fanonce/fanonce/server"
)

// A ScopeFunc returns the scope of a call's key: its tenant and principal, as a
// [server.ScopeFunc] does. It takes them from the ctx that an authenticating interceptor
// made, and never from metadata that a client chooses freely.
//
// Return "" for a caller without credentials: the call is refused with scope-missing. An error
// refuses the call with scope-unavailable, which callers retry. A status of gRPC or connect,
// such as PERMISSION_DENIED, is the answer instead if no retry can help against its code.
type ScopeFunc func(ctx context.Context) (string, error)

// Unscoped is the [ScopeFunc] of a service with one caller only, or whose callers may see each
// other's answers.
func Unscoped(context.Context) (string, error) { return server.Unscoped(nil) }

// Config configures an [Interceptor].
type Config struct {
	// Scope returns the scope of a call's key. Required.
	Scope ScopeFunc
	// Methods says how methods are guarded, by their full names: "/stock.v1.Stock/Reserve". The
	// generated constants have them, Stock_Reserve_FullMethodName and StockReserveProcedure. All
	// methods of a service that is named here are guarded. A unary method that is not in the
	// map is classed by the idempotency_level of its proto: NO_SIDE_EFFECTS is not guarded, and
	// IDEMPOTENT is [server.Keyed]. Without a level [New] returns an error: there is no default.
	Methods map[string]Method
	// Services names further services to guard, "stock.v1.Stock", all of whose methods have
	// an idempotency_level. Nil means none.
	Services []string
	// ReplayMetadata names the header and trailer metadata of handlers that a repetition gets
	// too. Nil means none. Names of gRPC's own metadata, of this library's and of secrets are an error.
	ReplayMetadata []string
}

// A Method says how one unary method is guarded.
type Method struct {
	// Effect is where the method's effects go. Zero means what the method's
	// idempotency_level says.
	Effect server.Effect
	// Unguarded lets the method's calls pass, keys and all. It excludes the other fields.
	Unguarded bool
	// KeyField is the string field of the request that has the key, such as "request_id"
	// (AIP-155). A call may have the same key in its metadata as well. Zero means that the key is
	// in the metadata alone.
	KeyField string
	// KeyOptional lets calls without a key through to the handler, each time anew and without a record, as
	// [server.Route].KeyOptional does. A [server.Transactional] method gets them in a transaction. Zero refuses them.
	KeyOptional bool
	// Wait is how long a duplicate waits for the first run, as [server.Task].Wait.
	Wait time.Duration
	// Fingerprint returns the part of a request that its key belongs to. A call with the same
	// key and another fingerprint is key-reused. It must return the same bytes in every version of
	// the service. An error refuses the call with key-invalid. Nil means the whole request, in a
	// form that does not depend on the version of protobuf or of the proto. The message in a google.protobuf.Any is part
	// of that form if its generated code is linked into the program; otherwise its bytes are, and they may differ
	// in a request that a client builds anew.
	Fingerprint func(proto.Message) ([]byte, error)
}

func reject(field string, value any, reason string) error {
	if strings.HasPrefix(field, "Config.") {
		field = "guardgrpc." + field
	}
	return &server.ConfigError{Field: field, Value: fmt.Sprint(value), Reason: reason}
}
