package redisstore

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

func checkTime(what string, d, least time.Duration) error {
	if d < least || d > store.MaxRetention {
		return fmt.Errorf("%w: %s %v", ErrArgument, what, d)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit <= 0 {
		return fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkClaim(req store.ClaimRequest) error {
	if req.Effect < store.Transactional || req.Effect > store.Opaque {
		return fmt.Errorf("%w: Effect %d", ErrArgument, req.Effect)
	}
	return first(checkTime("Lease", req.Lease, 1), checkTime("Keep", req.Keep, 0), checkTime("Window", req.Window, 0))
}

func checkSettlement(s store.Settlement) error {
	switch s.State {
	case store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateInProgress:
		return first(checkTime("ReplayFor", s.ReplayFor, 0), checkTime("KeepAnswer", s.KeepAnswer, 0))
	default:
		return fmt.Errorf("%w: cannot settle to State %d", ErrArgument, s.State)
	}
}

func checkResolve(req store.ResolveRequest) error {
	switch req.To {
	case store.StateCompleted, store.StateReleased, store.StateCancelled:
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, req.To)
	}
	if req.RecoveryAttempts < 0 {
		return fmt.Errorf("%w: RecoveryAttempts %d is negative", ErrArgument, req.RecoveryAttempts)
	}
	return first(checkTime("Keep", req.Keep, 0), checkTime("ReplayFor", req.ReplayFor, 0), checkTime("KeepAnswer", req.KeepAnswer, 0))
}
