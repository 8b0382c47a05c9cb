package saga

import (
	"context"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

// An Info says which call of which saga a ctx is of.
type Info struct {
	ID      journal.ID
	Scope   string // that the saga was started in
	Name    string // of the saga
	Version int
	Step    string
	Undo    bool
}

// FromContext returns the [Info] of the engine's call that ctx belongs to. It returns
// false if ctx belongs to no such call. An engine's call has no values of the request that
// started the saga: sdk.Service.HeaderFunc takes the [Scope] from here.
func FromContext(ctx context.Context) (Info, bool) {
	i, ok := engine.InfoFrom(ctx)
	return Info(i), ok
}
