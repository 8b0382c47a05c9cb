package saga

import (
	"context"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

// FromContext returns the [journal.CallInfo] of the engine's call that ctx belongs to. It returns
// false if ctx belongs to no such call. An engine's call has no values of the request that
// started the saga: sdk.Service.HeaderFunc takes the [Scope] from here.
func FromContext(ctx context.Context) (journal.CallInfo, bool) {
	return engine.CallInfoFrom(ctx)
}
